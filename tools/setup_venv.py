"""Create .venv beside this folder and install requirements.txt into it, once.

    python tools/setup_venv.py        (`make` does this; on Windows: py -3.11 ...)

A second call finds the stamp of the first one and installs nothing. The stamp is
written last, so an interrupted installation is taken up again by the next call.

On Linux, PyPI's torch brings NVIDIA's libraries, about 4 GB. A new .venv on a machine
without an NVIDIA driver gets PyTorch's CPU build; later calls keep the build they find.
TORCH=cpu or TORCH=cuda in the environment decides otherwise, at any time.

Standard library only, and no syntax newer than Python 3.6: an old interpreter must
get as far as the message that says it is too old.
"""

import ctypes
import functools
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import timedelta

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST, NEWEST = (3, 11), (3, 13)
LINUX = sys.platform.startswith("linux")
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# Seconds for PyTorch's index to answer. A firewall that drops what is sent would hold
# pip up for its timeout, times its retries, times the addresses of the index.
PATIENCE = 15
EVERY = 10  # seconds from one progress line to the next, where stdout is no terminal
# What a new .venv downloads and takes, measured on Linux with Python 3.11.
SIZE = {"cpu": "0.35 GB; 1.5 GB on disk", "cuda": "2.9 GB; 5.3 GB on disk"}
LOG = "pip.log"
# What pip says when an index has answered, when it reaches none, and what it does.
ANSWERED = re.compile(r"(?m)^(Collecting|Processing|Requirement already) ")
NO_NETWORK = re.compile(r"Retrying \(Retry\(|NewConnectionError|Could not fetch URL")
DOING = re.compile(r"(?m)^ *((?:Collect|Process|Download)ing [ -~]+|Installing [\w ]+)")


say = functools.partial(print, flush=True)


class SetupError(Exception):
    """The set-up cannot go on; the text says why and what to do."""


def check_version(version=None, executable=sys.executable):
    """Raise SetupError unless `version` (major, minor) is one the course supports."""
    version = tuple(version or sys.version_info)[:2]
    if OLDEST <= version <= NEWEST:
        return
    raise SetupError(
        "Python {}.{} ({}) does not suit: the course needs Python {}.{} to {}.{}.\n"
        "Install one of these and name it: make lab PYTHON=python3.12".format(
            *version, executable, *OLDEST, *NEWEST
        )
    )


def check_venv_module():
    """Raise SetupError when this Python cannot make virtual environments."""
    try:
        __import__("venv")
        __import__("ensurepip")  # Debian ships venv without it
    except ImportError as error:
        minor = sys.version_info[1]
        raise SetupError(
            f"This Python has no module {error.name}, which making .venv needs.\n"
            f"On Debian and Ubuntu: sudo apt install python3.{minor}-venv. Elsewhere, "
            "install Python from python.org or conda."
        ) from None


def asked_build():
    """The build of torch that TORCH asks for: "cpu", "cuda", or "" for any."""
    asked = os.environ.get("TORCH", "")
    if asked not in ("", "cpu", "cuda"):
        raise SetupError(f"TORCH={asked}: expected TORCH=cpu or TORCH=cuda.")
    if asked == "cuda" and not LINUX:
        raise SetupError("TORCH=cuda: PyPI has torch with CUDA for Linux only.")
    return asked if LINUX else ""  # there is one build for any other system


def has_nvidia_driver(library="libcuda.so.1"):
    """Whether the driver's library can be loaded, which is how torch finds a GPU.

    Other signs mislead: WSL has no /proc/driver/nvidia, a container has it without
    being given the GPU, and nvidia-smi is packaged apart from the library.
    """
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def venv_python(venv):
    """The interpreter's path inside the environment `venv`."""
    parts = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(venv, *parts)


def installed(venv):
    """{name: version} of what is installed in `venv`, names with underscores."""
    infos = []
    for folder in ("lib/python*/site-packages", "Lib/site-packages"):
        infos += glob.glob(os.path.join(glob.escape(venv), folder, "*-*.dist-info"))
    return dict(os.path.basename(i)[: -len(".dist-info")].split("-", 1) for i in infos)


def fingerprint(root):
    """What the stamp holds: changes with the two lists and with the folder's place."""
    digest = hashlib.sha256(os.path.realpath(root).encode("utf-8"))
    for name in ("requirements.txt", "pyproject.toml"):
        with open(os.path.join(root, name), "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def is_ready(root, venv):
    """Whether `venv` was completely installed from the lists as they are now."""
    try:
        with open(os.path.join(venv, "course-stamp"), encoding="utf-8") as file:
            stamped = file.read() == fingerprint(root)
        return stamped and os.path.exists(venv_python(venv))
    except OSError:
        return False


def venv_works(venv):
    """Whether `venv` holds a supported Python that can run pip."""
    probe = "import sys, pip; sys.exit(not {} <= sys.version_info[:2] <= {})"
    command = [venv_python(venv), "-c", probe.format(OLDEST, NEWEST)]
    try:
        return subprocess.call(command, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def make_venv(venv):
    """Create `venv`, or replace what an interrupted call left of it."""
    say("Creating " + venv)
    if subprocess.call([sys.executable, "-m", "venv", "--clear", venv]) != 0:
        raise SetupError(f"Python's venv could not create {venv}: see above.")


def run_pip(venv, *arguments, patience=float("inf")):
    """Run pip, say what it does, log what it says; its exit status and that text.

    It is ended where no index has answered after `patience` seconds.
    """
    command = [venv_python(venv), "-m", "pip", "--disable-pip-version-check"]
    command += ["--no-color", "--no-input", *arguments]
    path, said, start, shown = os.path.join(venv, LOG), "", time.time(), 0
    terminal, width = sys.stdout.isatty(), shutil.get_terminal_size().columns - 1
    with open(path, "ab") as log, open(path, encoding="utf-8", errors="replace") as new:
        new.seek(0, os.SEEK_END)
        root, errors = os.path.dirname(venv), subprocess.STDOUT
        pip = subprocess.Popen(command, cwd=root, stdout=log, stderr=errors)
        try:
            while pip.poll() is None:
                time.sleep(0.2)
                said += new.read()
                seconds = int(time.time() - start)
                if seconds > patience and not ANSWERED.search(said):
                    pip.kill()
                doing = (DOING.findall(said) or ["Waiting for the index"])[-1]
                line = f"  {timedelta(0, seconds)}  " + re.sub(r"\S+/", "", doing)
                if terminal:  # one line, written again and again
                    say("\r" + line[:width].ljust(width), end="")
                elif seconds >= shown + EVERY:
                    shown = seconds
                    say(line)
        finally:
            pip.wait()  # an interruption reaches pip as well, which then tidies up
            if terminal:
                say()
        return pip.returncode, said + new.read()


def install_cpu_build(venv, version, index):
    """Install PyTorch's CPU build from `index`, or say why it could not be had."""
    wanted = f"torch=={version}+cpu"
    say(f"Taking {wanted} from {index}")
    # What torch depends on comes with the rest, from the index that pip is set to.
    options = ["--no-deps", "--retries", "2", "--index-url", index]
    failed, said = run_pip(venv, "install", *options, wanted, patience=PATIENCE)
    if failed:
        errors = re.findall("(?m)^ERROR: (.*)", said)
        reason = errors[-1] if errors and not NO_NETWORK.search(said) else "no answer"
        say(f"  {reason}; using pip's own index (up to {SIZE['cuda']})")
        return
    # pip leaves what only the other build needed.
    nvidia = ("nvidia_", "cuda_", "triton")
    unused = [name for name in installed(venv) if name.startswith(nvidia)]
    if unused:
        run_pip(venv, "uninstall", "--yes", *unused)


def install_requirements(venv, *more):
    """Install requirements.txt, and `more` requirements, from pip's own index."""
    failed, said = run_pip(venv, "install", "-r", "requirements.txt", *more)
    if not failed:
        return
    reason = (
        "No package index could be reached: check the network (or the proxy, or "
        "pip's index-url) and call again; what is installed already is kept."
    )
    if not NO_NETWORK.search(said):
        reason = "pip could not install requirements.txt; its last words:\n"
        reason += "\n".join(said.splitlines()[-10:])
    raise SetupError(f"{reason}\nAll that pip said is in {os.path.join(venv, LOG)}.")


def set_up(root=ROOT, cpu_index=CPU_INDEX):
    """Bring root/.venv to what the lists and TORCH ask; True if that took work."""
    venv, asked, start = os.path.join(root, ".venv"), asked_build(), time.time()
    torch = installed(venv).get("torch")  # None, too, where a change was interrupted
    found = torch and ("cpu" if torch.endswith("+cpu") else "cuda")
    if is_ready(root, venv) and found and asked in ("", found):
        return False
    with open(os.path.join(root, "requirements.txt"), encoding="utf-8") as file:
        version = re.search(r"^torch==([\w.]+)", file.read(), re.MULTILINE).group(1)
    build = asked
    if LINUX and not asked:
        build = found or ("" if has_nvidia_driver() else "cpu")
    if not venv_works(venv):
        check_version()
        check_venv_module()
        make_venv(venv)
    size = f" ({SIZE[build or 'cuda']})" if LINUX else ""
    say(f"Installing: the first time about 2 minutes, besides the download{size}")
    if build == "cpu" and installed(venv).get("torch") != version + "+cpu":
        install_cpu_build(venv, version, cpu_index)
    # pip takes 2.13.0+cpu for a 2.13.0, and for the best one.
    install_requirements(venv, *[f"torch!={version}+cpu"] * (build == "cuda"))
    with open(os.path.join(venv, "course-stamp"), "w", encoding="utf-8") as file:
        file.write(fingerprint(root))
    took, torch = timedelta(0, int(time.time() - start)), installed(venv)["torch"]
    say(f"Ready after {took}, with torch {torch}")
    return True


def main(arguments):
    """Set up, or with --suitable only say by exit status if this Python would do."""
    try:
        if arguments == ["--suitable"]:
            check_version()
        else:
            set_up()
    except SetupError as error:
        print(f"set-up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("set-up: interrupted; the next call goes on from here.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
