"""What every test run needs before torch is imported anywhere."""

import asyncio
import os
import re

import pytest

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


def pytest_addoption(parser):
    parser.addoption(
        "--seeds",
        type=int,
        default=1,
        metavar="N",
        help="tests that ask for a seed run with 0 … N - 1 (default: 1)",
    )


def pytest_configure(config):
    """Let pytest be called from any folder of the repository."""
    rules = config.option.nbval_sanitize_with
    config.option.nbval_sanitize_with = str(config.rootpath / rules)


@pytest.hookimpl(optionalhook=True)  # a learner need not have xdist
def pytest_xdist_make_scheduler(config, log):
    """A file's tests go to one process; of a file for all lessons, a lesson's do."""
    from xdist.scheduler import LoadFileScheduling

    class ByLesson(LoadFileScheduling):
        def _split_scope(self, nodeid):
            lesson = re.search(r"\[(lesson\d\d)-", nodeid)
            return nodeid.split("::", 1)[0] + (lesson[1] if lesson else "")

    config.option.loadscopereorder = False  # notebooks come first: they take longest
    return ByLesson(config, log)
