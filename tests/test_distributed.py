"""Two processes do the work of one: lesson 14's helpers, started by torchrun."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from helpers import PAD
from helpers.batching import make_batch, share
from helpers.scale.processes import process_group
from helpers.translator import MODEL_FILE, Translator
from helpers.translator.command_line import RUN_FILE
from test_translator import folder  # noqa: F401  (a tiny Multi30k)

ROOT = Path(__file__).parents[1]
SCRIPT = str(ROOT / "tests" / "distributed_script.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
TORCHRUN += ["--local-addr=localhost", "--nproc-per-node=2"]
SECONDS = 240  # a deadlock fails, and does not hang
needs_torchrun = pytest.mark.skipif(
    sys.platform == "win32",
    reason="torchrun asks for libuv, which PyTorch for Windows is built without",
)


def torchrun(*command):
    """What the command prints in two processes, which must end well."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    # Without the second, processes that start again may look for the old ones.
    added = {"PYTHONPATH": paths, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
    arguments = [*TORCHRUN, *map(str, command)]
    with subprocess.Popen(arguments, env=os.environ | added, **pipes) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()  # torchrun ends its workers
            raise
    assert process.returncode == 0, errors
    return output


def training(data, output, *options):
    """The command that trains on the tiny Multi30k into `output`."""
    which = ["--corpus", "multi30k", "--data", data, "--beam", 2, "--output", output]
    return [*map(str, ["train", *which, *options])]


def losses(run):
    """Training and validation losses of a saved run, one epoch after another."""
    reports = torch.load(run, weights_only=True)["trainer"]["reports"]
    return [r[name] for r in reports for name in ("train_loss", "validation_loss")]


# --- Cutting a batch ------------------------------------------------------------------


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_every_sentence_is_in_one_share_without_a_column_of_padding(processes):
    pairs = [([4 + i] * (1 + i), [5 + i] * (2 + i % 3)) for i in range(4)]
    whole = make_batch(pairs)
    shares = [share(whole, r, processes) for r in range(processes)]
    for name in ("source", "target"):
        rows = [row[row != PAD].tolist() for s in shares for row in getattr(s, name)]
        assert sorted(rows) == sorted(
            r[r != PAD].tolist() for r in getattr(whole, name)
        )
        for part in shares:
            ids = getattr(part, name)
            assert (ids != PAD).any(0).all() and len(ids) - 4 // processes in (0, 1)
    assert share(make_batch(pairs[:1]), 1, 2).source.shape == (0, 0)


def test_a_script_that_was_not_started_by_torchrun():
    with pytest.raises(RuntimeError, match="by torchrun"), process_group():
        pass


def test_more_processes_than_gpus(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "test")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    expected = pytest.raises(ValueError, match="2 processes on a machine with 1 GPU")
    with expected, process_group():
        pass


# --- Two processes --------------------------------------------------------------------


@pytest.mark.slow
@needs_torchrun
def test_two_processes_are_one(tmp_path):
    torchrun(SCRIPT, tmp_path, "together")


@pytest.mark.long
@needs_torchrun
def test_a_killed_process_goes_on_from_the_checkpoint(folder, tmp_path):  # noqa: F811
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    said = torchrun(
        "-m", "helpers.translator", *training(folder, straight, "--epochs", 3)
    )
    assert re.findall(r"^epoch (\d)", said, re.MULTILINE) == ["1", "2", "3"], said
    assert said.count("saved in") == said.count("parameters") == 1, said
    assert {p.name for p in straight.iterdir()} == {MODEL_FILE, RUN_FILE}
    Translator.load(straight / MODEL_FILE)

    command = training(folder, killed, "--epochs", 3)
    said = torchrun("--max-restarts=1", SCRIPT, tmp_path, "killed", *command)
    assert (tmp_path / "died").exists() and "going on with" in said, said
    assert losses(killed / RUN_FILE) == pytest.approx(losses(straight / RUN_FILE))
    assert len(losses(killed / RUN_FILE)) == 2 * 3
