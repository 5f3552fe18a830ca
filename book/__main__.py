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
from helpers.corpus import toy_corpus
from tools.live_translator import PAGE, write_data
from tools.reproducible import ROOT

SPHINX = ROOT / ".cache" / "book" / "bin" / "sphinx-build"
# MathJax in the one form that the pages load; the package brings all forms, 21 MB more.
MATHJAX = ("tex-chtml.js", "output")
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
    # A font draws the icons: 1.6 MB of the theme, which draw them too, are left out.
    (site / "_static" / "scripts" / "fontawesome.js").write_text("", "utf-8")
    for path in {*site.rglob("*.html")} - {site / "search.html"}:
        change(path, SEARCH, "")
    translator = site / "translator"
    shutil.copytree(PAGE, translator, ignore=shutil.ignore_patterns("data"))
    change(translator / "index.html", IN_BOOK, r'<a href="../\1">\2</a>')
    write_data(translator / "data", toy_corpus())


def change(path: Path, pattern: re.Pattern, new: str) -> None:
    """Put something else where a file has the pattern."""
    path.write_text(pattern.sub(new, path.read_text("utf-8")), "utf-8", newline="\n")


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
