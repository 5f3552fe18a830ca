"""Chromium without a window, for the tests that look at a page."""

import functools
import json
import shutil
import threading
import time
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

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
PHONE, DESKTOP = (390, 844), (1280, 1000)  # width, height
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


def emulate(driver, size, *, dark=False):
    """Show pages in a window of this size, in a system that is light or dark."""
    width, height = size
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
    metrics["mobile"] = width < 600
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def errors(driver):
    """The console's errors since the last question."""
    log = driver.get_log("browser")
    return [entry["message"] for entry in log if entry["level"] == "SEVERE"]


def messages(driver, *events):
    """A list for each event of the network: what is noted since the last question."""
    log = [json.loads(e["message"])["message"] for e in driver.get_log("performance")]
    return [
        [entry["params"] for entry in log if entry["method"] == f"Network.{event}"]
        for event in events
    ]


class Quiet(SimpleHTTPRequestHandler):
    """A plain static server that prints nothing."""

    def log_message(self, *_):
        pass


@contextmanager
def served(folder):
    """The address of a plain static server over a folder."""
    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
