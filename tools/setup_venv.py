"""Create .venv beside this folder and install requirements.txt into it, once.

    python tools/setup_venv.py [--dev]     (`make` does this; on Windows: py -3.11 ...)

--dev takes requirements-dev.txt. A second call does nothing, and one after an
interruption goes on. On Linux without NVIDIA's driver, PyTorch's CPU build is taken,
4 GB smaller than PyPI's; TORCH=cpu or TORCH=cuda decides otherwise, at any time.
Standard library only, in the syntax of Python 3.6: an old one reaches its message.
"""

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = Path(".venv", "Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP, LOG = Path(".venv/course-stamp"), Path(".venv/pip.log")
LISTS = "requirements.txt", "requirements-dev.txt"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PATIENCE, EVERY = 15, 10  # seconds for that index to answer, and between two lines
# A pip that is faster than the one which Python brings, and what builds `-e .`.
TOOLS = "pip==26.3", "setuptools==84.2.1"
IMPORTS = (  # is compiled once, in two processes
    "import jupyterlab.labapp, jupyter_lsp.serverextension, notebook.app",
    "import ipykernel.kernelapp, ipywidgets, matplotlib.pyplot, pandas, seaborn, torch",
)


def check_version(version=sys.version_info):
    """Exit with a message unless the course supports this version of Python."""
    if not (3, 11) <= tuple(version)[:2] <= (3, 13):
        text = "set-up: Python {}.{} ({}) does not suit: the course needs Python 3.11 "
        text += "to 3.13.\nInstall one and name it: make lab PYTHON=python3.12"
        sys.exit(text.format(*version[:2], sys.executable))


def torch_build(before=""):
    """Which torch to install: "cpu", "cuda" or, where there is no choice, "any"."""
    asked = os.environ.get("TORCH", "")
    if asked not in ("", "cpu", "cuda"):
        sys.exit(f"set-up: TORCH={asked}: expected TORCH=cpu or TORCH=cuda.")
    if not sys.platform.startswith("linux"):
        return "any"
    try:
        return asked or before or (ctypes.CDLL("libcuda.so.1") and "cuda")
    except OSError:  # no driver: torch finds a GPU by this library
        return "cpu"


def fingerprint():
    """Changes with the lists of packages and with the folder's place."""
    files = [*LISTS, "pyproject.toml", "checkup/pyproject.toml"]
    text = os.getcwd().encode("utf-8") + b"".join(Path(f).read_bytes() for f in files)
    return hashlib.sha256(text).hexdigest()


def install(pip, *arguments, patience=0):
    """Run pip, which may take `patience` seconds to start; its exit status."""
    command, start = [*pip, "install", "--no-compile", *arguments], time.time()
    with LOG.open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as p:
        while p.poll() is None:
            try:
                p.wait(patience or EVERY)
            except subprocess.TimeoutExpired:
                said = LOG.read_text("utf-8", "replace")
                done = re.findall("\n *((?:Coll|Proc|Down|Inst).+ing .*)", said)
                line = re.sub(r"\S+/", "", done[-1])[:60] if done else "no answer yet"
                print(f"  {time.time() - start:3.0f} s: {line}", flush=True)
                if patience and not done:
                    p.kill()
                patience = 0
        return p.returncode


def set_up(dev=False):
    """Bring .venv to what the lists and TORCH ask, unless it is there already."""
    start, python = time.time(), str(PYTHON.absolute())
    had = STAMP.read_text().split() if STAMP.exists() and PYTHON.exists() else []
    build = torch_build("".join(had[1:2]))
    wanted = [fingerprint(), build, LISTS[1] if dev else "".join(had[2:]) or LISTS[0]]
    if had == wanted:
        return
    check_version()
    print("Installing into .venv: about a minute, besides the downloads", flush=True)
    if not PYTHON.exists():
        venv = [sys.executable, "-m", "venv", "--clear", "--without-pip", ".venv"]
        subprocess.check_call(venv)
    STAMP.write_text("")  # until all is done
    pip = [python, "-m", "pip"]
    if install([sys.executable, "-m", "pip", "--python", python], *TOOLS):
        if subprocess.call([python, "-m", "ensurepip"]):
            sys.exit("set-up: no pip; on Debian: sudo apt install python3-venv")
        install(pip, *TOOLS)
    pins = Path(LISTS[0]).read_text("utf-8")
    torch = re.search("\ntorch==(.+)", pins).group(1) + "+cpu"
    if build == "cpu":
        options = ["--no-deps", "--retries", "1", "--index-url", CPU_INDEX]
        if install(pip, "torch==" + torch, *options, patience=PATIENCE):
            print(f"  no answer from {CPU_INDEX}: taking the torch of pip's own index")
    more = ["torch!=" + torch] if build == "cuda" else []
    if install(pip, "--no-build-isolation", "-r", wanted[2], *more):
        last = "\n".join(LOG.read_text("utf-8", "replace").splitlines()[-10:])
        sys.exit(f"{last}\nset-up: pip failed; {LOG} has all that it said.")
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="")
    both = [subprocess.Popen([python, "-c", code], env=env) for code in IMPORTS]
    if [process.wait() for process in both] != [0, 0]:
        sys.exit("set-up: all is installed, yet it cannot be imported: see above.")
    STAMP.write_text("\n".join(wanted))
    print(f"Ready after {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    # --suitable only says by its exit status if this Python would do.
    check_version() if "--suitable" in sys.argv else set_up("--dev" in sys.argv)
