"""Anchors of headings as Jupyter makes them, which the links in the notebooks use."""

import re


def anchor(title: str) -> str:
    """The heading with dashes for its spaces."""
    return re.sub(r"\s+", "-", title.strip().replace("`", ""))
