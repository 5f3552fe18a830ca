"""Stamp the course's address into all that names it: python -m tools.publish URL [TAG]

The address stands in one place, [tool.course] of pyproject.toml. From there it goes
into the set-up cell of every notebook and into the badges "Open in Colab" of the
lessons and of README. A second call changes nothing; without an address there are no
badges. Nothing is executed and no output changes.
"""

import argparse
import re
import sys
from pathlib import Path

from tools import notebooks
from tools.reproducible import ROOT


def check_address(url: str, tag: str) -> str:
    """The address in its one form, https://github.com/<owner>/<name>.

    ValueError for an address of another form, or a tag that is no name.
    """
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", url)
    if not match:
        raise ValueError(
            f"{url!r} is not of the form https://github.com/<owner>/<name>: Colab "
            "opens notebooks from public repositories on GitHub"
        )
    if not re.fullmatch(r"[\w.][\w./-]*", tag):
        raise ValueError(f"{tag!r} is no name of a tag or branch")
    return f"https://github.com/{match[1]}"


def publish(url: str, tag: str = "main", root: Path = ROOT) -> None:
    """Write the address into pyproject.toml, notebooks and README.

    ValueError, before anything is written, for an address of another form.
    """
    url = check_address(url, tag)
    project, readme = root / "pyproject.toml", root / "README.md"
    text = project.read_text("utf-8")
    for key, value in {"repository": url, "tag": tag}.items():
        text, count = re.subn(rf'(?m)^{key} = ".*"$', f'{key} = "{value}"', text)
        if count != 1:
            raise ValueError(f"{project.name} has {count} lines '{key} = …', not one")
    project.write_text(text, "utf-8", newline="\n")
    for path in notebooks.all_notebooks(root / "notebooks"):
        notebook = notebooks.read(path)
        notebooks.stamp(notebook, path, root)
        notebooks.write(notebook, path)
    badge = notebooks.badge(root / "notebooks" / "00_start_here.ipynb", root)
    page = notebooks.with_badge(readme.read_text("utf-8"), badge)
    readme.write_text(page, "utf-8", newline="\n")


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.publish", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("url", help="https://github.com/<owner>/<name>")
    parser.add_argument("tag", nargs="?", default="main", help="tag or branch")
    options = parser.parse_args(arguments)
    try:
        publish(options.url, options.tag)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    print("stamped: `git status` lists what has changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
