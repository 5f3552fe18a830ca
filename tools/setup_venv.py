"""Create .venv beside this folder and install requirements.txt into it, once.

    python tools/setup_venv.py        (`make` does this; on Windows: py -3.11 ...)

A second call finds the stamp of the first one and installs nothing. The stamp is
written last, so an interrupted installation is taken up again by the next call.

Standard library only, and no syntax newer than Python 3.6: an old interpreter must
get as far as the message that says it is too old.
"""

import hashlib
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST, NEWEST = (3, 11), (3, 13)
# What pip says on stderr when it reaches no index.
NO_NETWORK = ("Retrying (Retry(", "NewConnectionError", "Could not fetch URL")


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


def check_venv_module(import_module=__import__):
    """Raise SetupError when this Python cannot make virtual environments."""
    try:
        import_module("venv")
        import_module("ensurepip")  # Debian ships venv without it
    except ImportError as error:
        raise SetupError(
            "This Python has no module {}, which making .venv needs.\n"
            "On Debian and Ubuntu: sudo apt install python{}.{}-venv. Elsewhere, "
            "install Python from python.org or conda.".format(
                error.name, *sys.version_info[:2]
            )
        ) from None


def venv_python(venv):
    """The interpreter's path inside the environment `venv`."""
    parts = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(venv, *parts)


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
            return file.read() == fingerprint(root) and os.path.exists(
                venv_python(venv)
            )
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
    print("Creating " + venv, flush=True)
    if subprocess.call([sys.executable, "-m", "venv", "--clear", venv]) != 0:
        raise SetupError(
            "Python's venv could not create {}: its message is above.".format(venv)
        )


def pip_install(python, root):
    """Install root/requirements.txt with `python`, showing pip's own output."""
    command = [python, "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--no-input", "-r", "requirements.txt"]
    pip = subprocess.Popen(
        command, cwd=root, stderr=subprocess.PIPE, universal_newlines=True
    )
    no_network = False
    for line in pip.stderr:
        sys.stderr.write(line)
        no_network = no_network or any(sign in line for sign in NO_NETWORK)
    pip.stderr.close()
    if pip.wait() == 0:
        return
    if no_network:
        raise SetupError(
            "No package index could be reached: check the network (or the proxy, or "
            "pip's index-url) and call again; what is installed already is kept."
        )
    raise SetupError("pip could not install requirements.txt: its message is above.")


def set_up(root=ROOT):
    """Bring root/.venv to what the lists ask for; True if anything had to be done."""
    venv = os.path.join(root, ".venv")
    if is_ready(root, venv):
        return False
    if not venv_works(venv):
        check_version()
        check_venv_module()
        make_venv(venv)
    print("Installing requirements.txt (the first time takes minutes)", flush=True)
    pip_install(venv_python(venv), root)
    with open(os.path.join(venv, "course-stamp"), "w", encoding="utf-8") as file:
        file.write(fingerprint(root))
    return True


def main(arguments):
    """Set up, or with --suitable only say by exit status if this Python would do."""
    try:
        if arguments == ["--suitable"]:
            check_version()
        else:
            set_up()
    except SetupError as error:
        print("set-up: {}".format(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
