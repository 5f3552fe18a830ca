"""Sphinx's settings. `book.sources` writes the pages' sources, beside `_build`."""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent  # the folder of the pages' sources, two below the root
sys.path.insert(0, str(HERE))
pyproject = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text("utf-8"))
repository = pyproject["tool"]["course"]["repository"]

project = "The Transformer, piece by piece"
author = "The course's authors"
language = "en"
extensions = ["myst_nb", "sphinx-mathjax-offline"]
exclude_patterns = ["README.md", "**/files/*"]  # the first page quotes README

nb_execution_mode = "off"  # outputs are the notebooks' own
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "html_image"]
myst_heading_anchors = 4
myst_heading_slug_func = "anchors.anchor"

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["book.css"]
html_js_files = [("book.js", {"defer": "defer"})]
html_favicon = "_static/icon.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the system is
# Where the site is published, if anywhere: `make publish` writes the course's address.
owner, _, name = repository.removeprefix("https://github.com/").partition("/")
html_baseurl = f"https://{owner}.github.io/{name}/" if repository else ""
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navigation_with_keys": True,
    "navbar_persistent": [],  # the side bar has the search field
}
suppress_warnings = ["myst.header"]  # solutions have exercises' headings right below
