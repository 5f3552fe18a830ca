"""Lesson 12's explorer in a browser: JupyterLab runs it, keys move its slider.

`make test-browser` runs this; it is skipped, with its reason, where there is no
Chromium.
"""

import os
import shutil
import socket
import subprocess
import sys
from contextlib import contextmanager
from urllib.request import urlopen

from selenium.webdriver.common.keys import Keys

from chromium import browser, needs_chromium, wait
from tools.reproducible import ROOT

LESSON = "12_reading_attention.ipynb"
TOKEN = "only-for-this-test"
# What is asked of the page; the explorer is the one output with a slider.
EXPLORER = "document.querySelector('.jp-OutputArea-child:has(.noUi-handle)')"
# The notebook's own indicator; it says "idle" before there is a kernel, too.
IDLE = """
    return !!document.querySelector('.jp-Notebook-ExecutionIndicator[data-status=idle]')
        && document.querySelector('.jp-KernelName').textContent != 'No Kernel';
"""
BUSY = (
    "return [...document.querySelectorAll('.jp-InputPrompt')]"
    ".filter(prompt => prompt.textContent.includes('*')).length"
)
PICTURE = f"""
    const image = {EXPLORER}?.querySelector('img');
    if (!image || !image.naturalWidth) return null;
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    canvas.getContext('2d').drawImage(image, 0, 0);
    return canvas.toDataURL();
"""


@contextmanager
def jupyterlab(folder):
    """A server over a folder, as a learner has it: with widgets, not with stills."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = folder / "settings"
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--ServerApp.port_retries=0"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--notebook-dir={folder}"]
    environment = {k: v for k, v in os.environ.items() if k != "COURSE_STILL"}
    environment |= {"JUPYTER_CONFIG_DIR": str(settings)}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(settings / "user")}
    environment |= {"JUPYTERLAB_WORKSPACES_DIR": str(settings / "workspaces")}
    with (folder / "server.log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        address = f"http://127.0.0.1:{port}"
        try:
            wait(lambda: answers(f"{address}/api?token={TOKEN}"), 60, "JupyterLab")
            yield address
        finally:
            server.terminate()  # it ends its kernels first
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def answers(url):
    try:
        with urlopen(url, timeout=5) as reply:
            return reply.status == 200
    except OSError:
        return False


def choose(driver, *names):
    """Click through the menus."""
    labels = "[contains(@class, '-itemLabel') and normalize-space()='{}']"
    for name in names:
        path = "//*" + labels.format(name)
        found = wait(lambda path=path: driver.find_elements("xpath", path), 20, name)
        found[-1].click()


@needs_chromium
def test_the_slider_changes_the_picture(tmp_path):
    # A copy, so that JupyterLab's autosave leaves the lesson as it is.
    folder = tmp_path / "course"
    folder.mkdir()
    shutil.copy(ROOT / "notebooks" / LESSON, folder)
    with jupyterlab(folder) as address, browser(tmp_path / "profile") as driver:
        ask = driver.execute_script
        # "reset" opens no other tab, and the token logs in
        driver.get(f"{address}/lab/tree/{LESSON}?reset&token={TOKEN}")
        ready = "return !!document.querySelector('.jp-NotebookPanel .jp-InputPrompt')"
        wait(lambda: ask(ready), 60, "the notebook")
        wait(lambda: ask(IDLE), 60, "the kernel")

        choose(driver, "Run", "Run All Cells")
        wait(lambda: ask(f"return !!{EXPLORER}"), 300, "the explorer's widgets")
        ask(f"{EXPLORER}.scrollIntoView({{block: 'center'}})")
        first = wait(lambda: ask(PICTURE), 60, "the explorer's picture")
        wait(lambda: not ask(BUSY), 300, "the end of Run All")
        ask(f"{EXPLORER}.scrollIntoView({{block: 'center'}})")

        handle = ask(f"return {EXPLORER}.querySelector('.noUi-handle')")
        handle.send_keys(Keys.ARROW_RIGHT)
        wait(lambda: ask(PICTURE) not in (None, first), 30, "another picture")
        handle.send_keys(Keys.ARROW_LEFT)
        wait(lambda: ask(PICTURE) == first, 30, "the picture before, on the way back")
        errors = "return document.querySelectorAll('[data-mime-type$=error]').length"
        assert ask(errors) == 0
