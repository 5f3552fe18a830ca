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


class AddressError(ValueError):
    """Not an address from which Colab can open notebooks; the text says why."""


def check_address(url: str, tag: str) -> str:
    """The address in its one form, https://github.com/<owner>/<name>.

    AddressError for an address of another form, or a tag that is no name.
    """
    match = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", url)
    if not match:
        raise AddressError(
            f"{url!r} is not of the form https://github.com/<owner>/<name>: Colab "
            "opens notebooks from public repositories on GitHub"
        )
    if not re.fullmatch(r"[\w.][\w./-]*", tag):
        raise AddressError(f"{tag!r} is no name of a tag or branch")
    return f"https://github.com/{match[1]}"


def publish(url: str, tag: str = "main", root: Path = ROOT) -> list[Path]:
    """Write the address into pyproject.toml, notebooks and README; list what changed.

    Raises AddressError, before anything is written, for an address of another form.
    """
    url = check_address(url, tag)
    changed = []
    project = root / "pyproject.toml"
    if _replace(project, {"repository": url, "tag": tag}):
        changed.append(project)
    folder = root / "notebooks"
    for path in notebooks.all_notebooks(folder):
        notebook = notebooks.read(path)
        notebooks.stamp(notebook, path, root)
        if notebooks.write(notebook, path):
            changed.append(path)
    readme = root / "README.md"
    first = folder / "00_start_here.ipynb"
    before = readme.read_text("utf-8")
    after = notebooks.with_badge(before, notebooks.badge(first, root))
    if before != after:
        readme.write_text(after, "utf-8", newline="\n")
        changed.append(readme)
    return changed


def _replace(project: Path, values: dict[str, str]) -> bool:
    """Set these keys of pyproject.toml, where each stands once; True if one changed."""
    before = after = project.read_text("utf-8")
    for key, value in values.items():
        after, count = re.subn(rf'(?m)^{key} = ".*"$', f'{key} = "{value}"', after)
        if count != 1:
            raise AddressError(f"{project.name} has {count} lines '{key} = …', not one")
    if before != after:
        project.write_text(after, "utf-8", newline="\n")
    return before != after


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.publish", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("url", help="https://github.com/<owner>/<name>")
    parser.add_argument("tag", nargs="?", default="main", help="tag or branch")
    options = parser.parse_args(arguments)
    try:
        changed = publish(options.url, options.tag)
    except AddressError as error:
        print(error, file=sys.stderr)
        return 1
    for path in changed:
        print(path.relative_to(ROOT).as_posix())
    print(f"{len(changed)} files changed" if changed else "all stamped already")
    return 0


if __name__ == "__main__":
    sys.exit(main())
