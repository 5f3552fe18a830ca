"""What the tests share: how they are seeded, and that no window opens."""

import random

import numpy as np
import pytest
import torch
from matplotlib import pyplot as plt


def pytest_generate_tests(metafunc):
    """A test that asks for `seed` runs once for each of --seeds."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(metafunc.config.option.seeds))


@pytest.fixture(autouse=True)
def seeded(request):
    """Every test starts from its seed, or from 0 if it asks for none.

    What lives longer than a test, such as a fixture of a module, is made before this
    and takes a seed of its own.
    """
    seed = request.getfixturevalue("seed") if "seed" in request.fixturenames else 0
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


@pytest.fixture
def seeds(request):
    """All seeds, for a test that tries them one after the other."""
    return range(request.config.option.seeds)


@pytest.fixture(scope="session")
def toy_text():
    """The toy corpus of lesson 10."""
    from helpers.translator import load_text

    return load_text("toy")


@pytest.fixture(autouse=True)
def close_figures(monkeypatch):
    """plt.show puts a figure away instead of showing it."""
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))


# They need a browser: `make test-book` runs them, a plain run does not collect them.
collect_ignore = ["book"]
