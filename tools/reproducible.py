"""The environment in which notebooks are executed, stored and compared.

Stored outputs were made under it, so it is forced and not merely offered: a value
left in somebody's shell would change the numbers that are compared. It must be set
before torch is imported; conftest.py and `python -m tools.notebooks` do that, and
the kernels inherit it.
"""

from collections.abc import MutableMapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CACHE = ROOT / ".cache"

# What fixes the arithmetic: AVX2 is what every x86 machine of the last ten years has,
# and where it was tried it cost no speed. Elsewhere these have no effect.
MATH_PATH = {
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}

REPRODUCIBLE_ENVIRONMENT = MATH_PATH | {
    # Sums are split by thread, so their number is part of the result. One, because a
    # second thread is worth less to a small model than to a second notebook.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # A lesson may ask for more. A thread that waits then gives its core away soon: by
    # default it holds it for long, and kernels that share cores slow down manyfold.
    "GOMP_SPINCOUNT": "3000",
    # What helpers.runtime.keep_freed_memory does for training, for all that a lesson
    # does: glibc keeps freed memory for the next need. Elsewhere without effect.
    "MALLOC_TRIM_THRESHOLD_": "1073741824",
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    # The order of sets of strings.
    "PYTHONHASHSEED": "0",
    # What a process prints is read as UTF-8, whatever the machine's own encoding.
    "PYTHONUTF8": "1",
    # A GPU computes other digits; the lessons' stored numbers are a CPU's.
    "CUDA_VISIBLE_DEVICES": "-1",
    # Progress bars are for people: what they print depends on the clock.
    "TQDM_DISABLE": "1",
    # What a learner has written is neither read nor changed (helpers.mine).
    "COURSE_MINE": "off",
    # Long lessons compute for a minute (helpers.runtime.run_kind).
    "COURSE_RUN": "check",
    # Figures go into the notebook, and nobody's start-up files run in the kernel.
    "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    "IPYTHONDIR": str(CACHE / "ipython"),
}

# What a run that takes its time, on all cores or a GPU, does without.
LIMITS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "GOMP_SPINCOUNT",
    "CUDA_VISIBLE_DEVICES",
    "COURSE_RUN",
)

# With this variable set to "own", the machine's own math path is left alone.
MATH_SWITCH = "COURSE_MATH"


def make_reproducible(environ: MutableMapping[str, str], *, long: bool = False) -> None:
    """Put REPRODUCIBLE_ENVIRONMENT into `environ`, a mapping such as os.environ.

    With long, without LIMITS: for a run that is to take all that the machine has.

    With COURSE_MATH=own in it, MATH_PATH is taken out instead: that is how the tests
    ask whether stored outputs hold on the machine's own math path too.
    """
    environ.update(REPRODUCIBLE_ENVIRONMENT)
    CACHE.mkdir(exist_ok=True)  # IPython warns where it may not make its folder
    if environ.get(MATH_SWITCH) == "own":
        for name in MATH_PATH:
            del environ[name]
    if long:
        for name in LIMITS:
            environ.pop(name)
