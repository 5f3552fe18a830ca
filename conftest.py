"""What every test run needs before torch is imported anywhere."""

import asyncio
import os

from tools.reproducible import make_reproducible

make_reproducible(os.environ)  # the notebooks' kernels inherit it

import matplotlib  # noqa: E402

# Builds the cache of fonts if there is none; the first lesson to draw would otherwise
# warn that it does so.
import matplotlib.font_manager  # noqa: E402

matplotlib.use("Agg")  # for this process; the kernels draw into their notebooks

# Windows' other kind of event loop works with kernels too, but warns with each of them.
if os.name == "nt":
    asyncio.set_event_loop_policy(asyncio.WindowsSelectorEventLoopPolicy())


def at_least_one(text):
    """A number of seeds: with none of them, tests that ask for one would not run."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def pytest_addoption(parser):
    parser.addoption(
        "--seeds",
        type=at_least_one,
        default=3,
        metavar="N",
        help="tests that ask for a seed run with 0 … N - 1 (default: 3)",
    )


def pytest_configure(config):
    """Let pytest be called from any folder of the repository."""
    rules = config.option.nbval_sanitize_with
    config.option.nbval_sanitize_with = str(config.rootpath / rules)
