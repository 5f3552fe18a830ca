"""Make the course ready on Colab: a lesson's set-up cell runs this, once it is fetched.

What Colab lacks is installed in the version that requirements.txt pins.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

COURSE = Path(__file__).parents[1]
NEEDED = (["pooch"], ["sacrebleu"], ["tokenizers"], ["d2l", "--no-deps"])


def make_ready() -> None:
    """Let notebooks import the course, and install what is not there yet."""
    for folder in (COURSE / "checkup", COURSE):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    pins = (COURSE / "requirements.txt").read_text("utf-8").split()
    for name, *options in NEEDED:
        if not find_spec(name):
            (pin,) = (pin for pin in pins if pin.startswith(name + "=="))
            install = [sys.executable, "-m", "pip", "install", "-q", pin, *options]
            subprocess.run(install, check=True)


if __name__ == "__main__":
    make_ready()
