"""requirements.txt without its pins: python tools/newest.py > newest.txt

The weekly workflow installs this list, to see early which new release breaks what.
Standard library only: it runs before anything is installed.
"""

import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements.txt"
# What keeps its pin all the same, and why.
KEPT = {
    "d2l": "the reading is of this release, and later ones pin old versions of others"
}


def newest(requirements: str) -> str:
    """The text of a requirements file with the version of each package left open."""
    lines = []
    for line in requirements.splitlines():
        name, pinned, _ = line.partition("==")
        lines.append(name if pinned and name not in KEPT else line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(newest(REQUIREMENTS.read_text("utf-8")))
