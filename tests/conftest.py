"""What the tests share."""

import pytest
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def close_figures(monkeypatch):
    """plt.show puts a figure away instead of showing it."""
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))


# They need a browser: `make test-browser` runs them, a plain run does not collect them.
collect_ignore = ["browser"]
