"""Build the book into book/_build/html, and show it: python -m book [--serve]

No notebook is executed; the live translator's page shows `trained_toy()`. Sphinx has an
environment of its own, which `make book` sets up.
"""

import argparse
import functools
import re
import shutil
import subprocess
import webbrowser
from collections.abc import Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from book import sources
from tools.live_translator import PAGE, write_data
from tools.reproducible import ROOT

SPHINX = ROOT / ".cache" / "book" / "bin" / "sphinx-build"
# MathJax in the one form that the pages load; the package brings all forms.
MATHJAX = ("tex-chtml.js", "output")
ICON = re.compile(r"\bfa-[\w-]+")
# What searches, which the theme loads in every page, though another page answers.
SEARCH = re.compile(
    r'\s*<script src="\S*(?:searchtools|language_data|searchindex)\.js\S*></script>'
)
# What the translator's page links to where the book is around it.
IN_BOOK = re.compile(r'<span\s+data-book="([^"]+)">(.*?)</span>', re.S)


def build(site: Path = sources.SITE, sphinx: Path = SPHINX) -> None:
    """Write the site anew. A warning of Sphinx's is an error: CalledProcessError."""
    sources.write()
    shutil.rmtree(site, ignore_errors=True)
    command = [sphinx, "-q", "-W", "--keep-going", "-b", "html", sources.SOURCES, site]
    subprocess.run([*map(str, command)], check=True)
    for path in (site / "_static" / "mathjax").iterdir():
        if path.name not in MATHJAX:
            (shutil.rmtree if path.is_dir() else Path.unlink)(path)
    leave_out_icons(site)
    for path in {*site.rglob("*.html")} - {site / "search.html"}:
        path.write_text(SEARCH.sub("", path.read_text("utf-8")), "utf-8", newline="\n")
    for path in (site / "_static").rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text("utf-8"), flags=re.S)
        path.write_text(re.sub(r"\s+", " ", text), "utf-8", newline="\n")
    translator = site / "translator"
    shutil.copytree(PAGE, translator, ignore=shutil.ignore_patterns("data"))
    page = translator / "index.html"
    linked = IN_BOOK.sub(r'<a href="../\1">\2</a>', page.read_text("utf-8"))
    page.write_text(linked, "utf-8", newline="\n")
    write_data(translator / "data")


def leave_out_icons(site: Path) -> None:
    """Drop what the theme brings of icons that no page shows: 1.7 MB for each reader.

    The web font draws the others, so the script that draws them too has nothing to do.
    """
    scripts = site / "_static" / "scripts"
    (scripts / "fontawesome.js").write_text("// A font draws the icons.\n", "utf-8")
    files = [*site.rglob("*.html"), *scripts.glob("*.js")]
    used = {name for file in files for name in ICON.findall(file.read_text("utf-8"))}
    sheet = site / "_static" / "styles" / "pydata-sphinx-theme.css"
    rules = re.sub(
        r'(?:\.fa-[\w-]+,)*\.fa-[\w-]+\{--fa:"[^"]*"\}',
        lambda rule: rule[0] if used & {*ICON.findall(rule[0])} else "",
        sheet.read_text("utf-8"),
    )
    sheet.write_text(rules, "utf-8", newline="\n")


def serve(site: Path = sources.SITE) -> None:
    """Show the site in a browser until Ctrl-C."""
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"the book is at {address} until Ctrl-C", flush=True)
        webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def main(given: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m book", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--serve", action="store_true", help="open it in a browser")
    arguments = parser.parse_args(given)
    build()
    pages = len([*sources.SITE.rglob("*.html")])
    size = sum(p.stat().st_size for p in sources.SITE.rglob("*") if p.is_file())
    print(f"{sources.SITE}: {pages} pages, {size / 1e6:.0f} MB")
    if arguments.serve:
        serve()


if __name__ == "__main__":
    main()
