"""Where the course runs: device, versions, and what makes a CPU faster."""

import ctypes
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from tqdm.auto import tqdm

RUN_KINDS = ("gpu", "cpu", "check")

# What the lessons need to know of an environment, in the order they print it.
PACKAGES = ("torch", "numpy", "matplotlib", "tokenizers", "sacrebleu", "d2l")


def best_device() -> torch.device:
    """The GPU if there is one, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def run_kind() -> str:
    """How much a long lesson may compute: "gpu", "cpu", or "check" for about a minute.

    The device decides; COURSE_RUN, which the tests set to "check", overrules it.
    ValueError if that is none of the three.
    """
    kind = os.environ.get("COURSE_RUN") or best_device().type.replace("cuda", "gpu")
    if kind not in RUN_KINDS:
        raise ValueError(f"COURSE_RUN must be one of {RUN_KINDS}: {kind!r}")
    return kind


def environment_report() -> dict[str, str]:
    """Python's, the device's and the packages' versions; "missing" where one is."""
    report = {"Python": platform.python_version(), "device": device_name(best_device())}
    for name in PACKAGES:
        try:
            report[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            report[name] = "missing"
    return report


def device_name(device: torch.device) -> str:
    """A GPU's product name, or the CPU with its number of threads."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU, {torch.get_num_threads()} threads"


def keep_freed_memory() -> bool:
    """Let this process keep memory that it has freed, for what it needs next.

    Left to itself, glibc gives large blocks back to Linux as soon as they are free, and
    a training step on a CPU asks for the same ones again: thousands of page faults a
    step. Without this, a step took 1.09 times as long (benchmarks/speed.txt). False,
    and nothing has changed, where the C library is not glibc, as on macOS and Windows.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    trim_threshold, mmap_threshold = -1, -3  # the names' numbers, from malloc.h
    return all(mallopt(name, 2**30) for name in (mmap_threshold, trim_threshold))


def random_state(device: torch.device) -> dict[str, Tensor]:
    """Where this process's random numbers stand: those of dropout."""
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def set_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    """Go on with the random numbers from where `state` was taken."""
    torch.set_rng_state(state["cpu"])
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], device)


def progress_bar(batches: Sequence, position: int, epoch: int) -> Iterable:
    """An epoch's batches from a position on, under a progress bar."""
    return tqdm(
        batches[position:],
        desc=f"epoch {epoch + 1}",
        initial=position,
        total=len(batches),
        unit="step",
        leave=False,
        # None: no bar in a file. Its notebook bar does not read tqdm's variable.
        disable=bool(os.environ.get("TQDM_DISABLE")) or None,
    )
