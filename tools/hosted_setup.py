"""Make the course ready on a host such as Colab or Kaggle, and say what it keeps.

A lesson's set-up cell runs this, once it has fetched the course. What the host lacks is
installed in the version that requirements.txt pins.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

COURSE = Path(__file__).parents[1]
NEEDED = "pooch", "sacrebleu", "tokenizers", "transformers", "d2l --no-deps"
DRIVE = Path("/content/drive")


def make_ready() -> None:
    """Let notebooks import the course, and install what is not there yet."""
    for folder in (COURSE / "checkup", COURSE):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    pins = (COURSE / "requirements.txt").read_text("utf-8").split()
    for name, *options in map(str.split, NEEDED):
        if not find_spec(name):
            (pin,) = (pin for pin in pins if pin.startswith(name + "=="))
            install = [sys.executable, "-m", "pip", "install", "-q", pin, *options]
            subprocess.run(install, check=True)


def keep(drive: Path = DRIVE) -> str:
    """Keep the learner's parts and models in Google Drive, if the user allows it.

    Colab asks. Returns the sentence that says where they are, and for how long.
    """
    if "COURSE_MINE" in os.environ:
        return f"What you write is kept in {os.environ['COURSE_MINE']}."
    ends = "What you write and train ends with this session"
    if "google.colab" not in sys.modules:
        return f"{ends}: download course/notebooks/my_transformer.py before."
    from google.colab import drive as google

    try:
        google.mount(str(drive))
    except Exception as error:  # Colab's own class; a refusal is no reason to stop
        return f"{ends}, as Google Drive is not used ({error})."
    folder = drive / "MyDrive" / "transformer-course"
    folder.mkdir(exist_ok=True)
    os.environ["COURSE_MINE"] = str(folder)
    return f"What you write and train is kept in Google Drive, in {folder.name}."


if __name__ == "__main__":
    make_ready()
    print(keep())
