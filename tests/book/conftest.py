"""What the tests of the book share: a server over a module's `site`, and a browser."""

import pytest

from chromium import DESKTOP, browser, emulate, served


@pytest.fixture(scope="module")
def address(site):
    """Where the folder `site` is served; each module says what is in it."""
    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """One browser for all tests; it keeps no file from one page to the next."""
    profile = tmp_path_factory.mktemp("profile")
    with browser(profile, logs=("browser", "performance")) as driver:
        driver.set_script_timeout(120)
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd("Network.setCacheDisabled", {"cacheDisabled": True})
        yield driver


@pytest.fixture
def driver(chromium):
    """The browser as each test finds it: on a light desktop, its logs empty."""
    emulate(chromium, DESKTOP)
    for log in ("browser", "performance"):
        chromium.get_log(log)  # which empties it
    return chromium
