"""Versions, devices, and d2l with torchvision missing, broken and present."""

import importlib.metadata
import os
import platform
import subprocess
import sys
import types

import pytest
import torch

from helpers import runtime
from helpers.runtime import (
    PACKAGES,
    RUN_KINDS,
    best_device,
    device_name,
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


def test_no_d2l(without_torchvision, monkeypatch):
    monkeypatch.setitem(sys.modules, "d2l", None)
    with pytest.raises(ImportError, match="d2l"):
        import_d2l()
    assert not torchvision_modules()


def test_a_second_import_gives_the_same_module(without_torchvision):
    assert import_d2l() is import_d2l()
    assert not torchvision_modules()


def test_environment_report():
    report = environment_report()
    assert list(report) == ["Python", "device", *PACKAGES]
    assert report["Python"] == platform.python_version()
    assert report["torch"] == importlib.metadata.version("torch")
    assert "missing" not in report.values()


def test_environment_report_names_what_is_missing(monkeypatch):
    monkeypatch.setattr(runtime, "PACKAGES", ("torch", "no-such-package"))
    report = environment_report()
    assert report["no-such-package"] == "missing"
    assert report["torch"] != "missing"


@pytest.mark.parametrize("available", [True, False])
def test_best_device(monkeypatch, available):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert best_device().type == ("cuda" if available else "cpu")


def test_device_name(monkeypatch):
    threads = torch.get_num_threads()
    assert device_name(torch.device("cpu")) == f"CPU, {threads} threads"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert device_name(torch.device("cuda")) == "a GPU"


@pytest.mark.parametrize(("available", "kind"), [(True, "gpu"), (False, "cpu")])
def test_the_device_decides_how_long_a_lesson_runs(monkeypatch, available, kind):
    monkeypatch.delenv("COURSE_RUN", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: available)
    assert run_kind() == kind
    monkeypatch.setenv("COURSE_RUN", "")  # as good as not set
    assert run_kind() == kind


@pytest.mark.parametrize("kind", RUN_KINDS)
def test_a_variable_overrules_the_device(monkeypatch, kind):
    monkeypatch.setenv("COURSE_RUN", kind)
    assert run_kind() == kind


def test_an_unknown_kind_of_run_is_named(monkeypatch):
    monkeypatch.setenv("COURSE_RUN", "quick")
    with pytest.raises(ValueError, match=r"one of .*'check'.*: 'quick'"):
        run_kind()


# -- memory ----------------------------------------------------------------------------

STEPS = """
import resource, statistics, sys
import torch
from helpers.batching import Batch
from helpers.runtime import keep_freed_memory
from helpers.training import Trainer, TrainingConfig
from helpers.transformer import Transformer, TransformerConfig

sizes = {"d_model": 32, "n_heads": 2, "d_ff": 64, "n_layers": 1}
pairs = [([4], [4])]
model = Transformer(TransformerConfig(4000, 4000, **sizes))
trainer = Trainer(model, pairs, pairs, TrainingConfig(epochs=1))
if sys.argv[1] == "kept":
    keep_freed_memory()
tokens = torch.randint(4, 4000, (32, 21))
batch = Batch(tokens, tokens)
faults = []
for _ in range(40):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    trainer.train_step(batch, 0.5)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
# The median: now and then the process grows, when freed memory is in pieces.
print(statistics.median_low(faults))
"""


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_a_training_step_asks_for_no_new_memory():
    """Page faults a step: counted, so that a slow machine changes nothing."""
    faults = {}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    options = {"env": environment, "capture_output": True, "encoding": "utf-8"}
    for how in ("kept", "returned"):
        command = [sys.executable, "-c", STEPS, how]
        run = subprocess.run(command, **options, check=True)
        faults[how] = int(run.stdout)
    assert faults["kept"] < 200 < 1000 < faults["returned"], faults


def test_another_c_library_is_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert keep_freed_memory() is False
