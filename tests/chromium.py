"""Chromium without a window, for the tests that look at a page."""

import shutil
import time
from contextlib import contextmanager

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
DRIVER = shutil.which("chromedriver")
MISSING = "Chromium" if CHROMIUM is None else "chromedriver" if DRIVER is None else ""
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync "
    "--window-size=1400,1400"
)
needs_chromium = pytest.mark.skipif(
    bool(MISSING), reason=f"no {MISSING} found: install chromium and chromium-driver"
)


def wait(question, seconds, what, *, pause=0.3):
    """What `question()` gives as soon as it is true; the test fails after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if answer := question():
            return answer
        time.sleep(pause)
    pytest.fail(f"{what}: not within {seconds} s")


@contextmanager
def browser(profile, *, logs=()):
    """A driver of Chromium; `logs` names those of its logs that are kept whole."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", dict.fromkeys(logs, "ALL"))
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    try:
        yield driver
    finally:
        driver.quit()
