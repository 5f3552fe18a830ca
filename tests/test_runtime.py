"""Versions, devices, and d2l with torchvision missing, broken and present."""

import importlib.metadata
import platform
import sys
import types

import pytest
import torch

from helpers import runtime
from helpers.runtime import (
    best_device,
    environment_report,
    keep_freed_memory,
    run_kind,
)
from lessons.lesson16.d2l import import_d2l


def torchvision_modules():
    return {name for name in sys.modules if name.partition(".")[0] == "torchvision"}


@pytest.fixture
def fresh(monkeypatch):
    """As in a new process: neither d2l nor torchvision imported; undone afterwards."""
    for name in ("d2l", "d2l.torch", *torchvision_modules()):
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield monkeypatch
    for name in torchvision_modules() | {"d2l", "d2l.torch"}:
        sys.modules.pop(name, None)


@pytest.fixture
def without_torchvision(fresh, tmp_path):
    """A torchvision on the path that says it is not there."""
    error = "raise ModuleNotFoundError(\"No module named 'torchvision'\")\n"
    (tmp_path / "torchvision.py").write_text(error, "utf-8")
    fresh.syspath_prepend(tmp_path)


def test_d2l_without_torchvision(without_torchvision):
    d2l = import_d2l()
    assert d2l.__name__ == "d2l.torch"
    heads = d2l.MultiHeadAttention(8, 8, 8, 8, num_heads=2, dropout=0.0).eval()
    x = torch.ones(1, 3, 8)
    assert heads(x, x, x, None).shape == (1, 3, 8)
    assert not torchvision_modules()


def test_d2l_with_a_broken_torchvision(fresh, tmp_path):
    broken = tmp_path / "torchvision"
    broken.mkdir()
    error = "operator torchvision::nms does not exist"
    raising = f"raise RuntimeError({error!r})\n"
    (broken / "__init__.py").write_text(raising, "utf-8")
    fresh.syspath_prepend(tmp_path)
    assert import_d2l().__name__ == "d2l.torch"
    assert not torchvision_modules()
    with pytest.raises(RuntimeError, match="nms does not exist"):
        import torchvision  # noqa: F401  the stand-in is gone, the fault is seen again


def test_d2l_with_torchvision(fresh):
    present = types.ModuleType("torchvision")
    present.transforms = types.ModuleType("torchvision.transforms")
    fresh.setitem(sys.modules, "torchvision", present)
    fresh.setitem(sys.modules, "torchvision.transforms", present.transforms)
    d2l = import_d2l()
    assert d2l.torchvision is present
    assert d2l.transforms is present.transforms
    assert sys.modules["torchvision"] is present


def test_touching_the_stand_in(without_torchvision):
    d2l = import_d2l()
    with pytest.raises(ImportError, match=r"torchvision\.transforms\.ToTensor was"):
        d2l.load_data_fashion_mnist(batch_size=2)
    with pytest.raises(ImportError, match=r"torchvision\.io was asked for.* missing"):
        d2l.torchvision.io.read_image("cat.png")
    assert not hasattr(d2l.torchvision, "__path__")  # Python's own questions pass


def test_environment_report(monkeypatch):
    monkeypatch.setattr(runtime, "PACKAGES", ("torch", "no-such-package"))
    report = environment_report()
    assert report["Python"] == platform.python_version()
    assert report["torch"] == importlib.metadata.version("torch")
    assert report["no-such-package"] == "missing"


@pytest.mark.parametrize(("available", "kind"), [(True, "gpu"), (False, "cpu")])
def test_the_device_decides_how_long_a_lesson_runs(monkeypatch, available, kind):
    monkeypatch.delenv("COURSE_RUN", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert best_device().type == ("cuda" if available else "cpu")
    assert run_kind() == kind
    monkeypatch.setenv("COURSE_RUN", "check")  # overrules the device
    assert run_kind() == "check"


def test_an_unknown_kind_of_run_is_named(monkeypatch):
    monkeypatch.setenv("COURSE_RUN", "quick")
    with pytest.raises(ValueError, match=r"one of .*'check'.*: 'quick'"):
        run_kind()


# -- memory ----------------------------------------------------------------------------


def test_freed_memory_is_kept_where_the_c_library_can_be_told(monkeypatch):
    assert keep_freed_memory() is (platform.libc_ver()[0] == "glibc")
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert keep_freed_memory() is False
