"""Fast paths that could be lost without a wrong number: counted, never timed."""

import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from helpers import EOS, PAD
from helpers.batching import Batch, make_batch
from helpers.decoding import beam_search, greedy_decode
from helpers.training import Trainer, TrainingConfig, token_loss
from samples import SIZES, sentences, small_model

ATTENTIONS = 6  # two encoder layers, two decoder layers with two each
FUSED = "_scaled_dot_product_flash_attention_for_cpu"
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")


class Operations(TorchDispatchMode):
    """What PyTorch runs inside the block, gradients too: how often, at what size."""

    def __init__(self):
        super().__init__()
        self.calls, self.multiplications, self.outputs = Counter(), 0, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        self.calls[name] += 1
        if name in PRODUCTS:
            rows, columns = args[-2:]
            self.multiplications += rows.numel() * columns.size(-1)
        self.outputs += [
            (name, x.shape)
            for x in (result if isinstance(result, tuple | list) else [result])
            if isinstance(x, torch.Tensor)
        ]
        return result


def counted(work):
    with Operations() as operations:
        work()
    return operations


def never_ending():
    """A model that never chooses EOS, so that the number of steps is known."""
    model, end = small_model(), torch.tensor([EOS])
    model.projection.register_forward_hook(
        lambda _, __, logits: logits.index_fill(-1, end, -1e9)
    )
    return model


def rows_given(module, work):
    """How many positions each call of a module is given while `work` runs."""
    rows = []
    handle = module.register_forward_pre_hook(
        lambda _, inputs: rows.append(inputs[0].shape[:-1].numel())
    )
    work()
    handle.remove()
    return rows


STEPS, BEAM = 9, 4
SEARCHES = pytest.mark.parametrize(
    ("decode", "hypotheses"),
    [
        (greedy_decode, 1),
        (lambda *a, **k: beam_search(*a, beam_size=BEAM, **k), BEAM),
    ],
    ids=["greedy", "beam"],
)


# -- attention -------------------------------------------------------------------------


def one_training_step(model, source, target):
    pairs = [([4], [4])]
    trainer = Trainer(model, pairs, pairs, TrainingConfig(epochs=1))
    model.train()
    trainer.train_step(Batch(source, target), 0.5)


@pytest.mark.parametrize(
    "work",
    [
        one_training_step,
        lambda model, source, target: model(source, target),
        lambda model, source, _: greedy_decode(model, source, max_length=1),
        lambda model, source, _: beam_search(model, source, max_length=1),
    ],
    ids=["training", "forward", "greedy", "beam"],
)
def test_every_attention_is_pytorch_s_fused_one(work):
    model, (source, target) = small_model(dropout=0.1), sentences()
    calls = counted(lambda: work(model, source, target)).calls
    assert calls[FUSED] == ATTENTIONS
    assert calls[f"{FUSED}_backward"] == ATTENTIONS * (work is one_training_step)
    assert calls["_softmax"] == calls["_safe_softmax"] == calls["bmm"] == 0


# -- decoding --------------------------------------------------------------------------


@SEARCHES
def test_the_source_is_read_once(decode, hypotheses):
    model, (source, _) = never_ending(), sentences()
    most = {model.encoder: source.numel()}
    for layer in model.decoder.layers:
        attention = layer.cross_attention
        for module in (attention.key_projection, attention.value_projection):
            most[module] = hypotheses * source.numel()
    for module, limit in most.items():
        rows = rows_given(module, lambda: decode(model, source, max_length=STEPS))
        assert len(rows) == 1
        assert rows[0] <= limit


@SEARCHES
def test_every_step_computes_one_position(decode, hypotheses):
    model, (source, _) = never_ending(), sentences()
    for layer in model.decoder.layers:
        for module in (layer.feed_forward, layer.self_attention.key_projection):
            rows = rows_given(module, lambda: decode(model, source, max_length=STEPS))
            assert len(rows) == STEPS
            assert max(rows) <= hypotheses * len(source)


# -- training --------------------------------------------------------------------------


def test_nothing_of_the_vocabulary_s_size_is_computed_for_padding():
    vocabulary = 53  # no other size is 53
    model, (source, target) = small_model(), sentences()
    model.projection = nn.Linear(SIZES["d_model"], vocabulary, bias=False)
    batch = Batch(source, target)
    real = int((batch.labels != PAD).sum())
    assert real < batch.labels.numel()

    def work():
        loss, tokens = token_loss(model, batch, label_smoothing=0.1)
        loss.backward()
        assert tokens == real

    outputs = counted(work).outputs
    large = [(name, shape) for name, shape in outputs if vocabulary in shape]
    assert large
    weights = {vocabulary, SIZES["d_model"]}
    for name, shape in large:
        rows = shape.numel() // vocabulary
        assert rows <= real or set(shape) == weights, f"{name} gives {tuple(shape)}"


def test_a_training_step_multiplies_thrice_what_its_forward_does():
    model, (source, target) = small_model(dropout=0.1), sentences()
    batch = Batch(source, target)
    forward = counted(lambda: token_loss(model, batch)).multiplications
    step = counted(lambda: one_training_step(model, source, target)).multiplications
    assert step <= 3 * forward


def test_no_step_waits_for_a_number():
    """Losses and clipping stay on the device; `item` would wait for it each time."""
    model, pairs = small_model(dropout=0.1), [([5, 6, 7], [8] * n) for n in (1, 5, 3)]
    trainer = Trainer(model, pairs, pairs, TrainingConfig(epochs=1))
    batch = make_batch(pairs)
    model.train()
    trainer.train_step(batch, 0.0)  # Adam's own counters are made in the first step
    steps = counted(lambda: [trainer.train_step(batch, 0.5) for _ in range(5)])
    assert steps.calls["_fused_adamw_"] == 5
    assert steps.calls["_local_scalar_dense"] == 0


# -- imports ---------------------------------------------------------------------------


@pytest.mark.slow
def test_the_model_brings_no_package_along_but_torch():
    code = (
        "import sys, torch; before = set(sys.modules); "
        "import helpers.transformer, helpers.decoding; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    printed = subprocess.check_output([sys.executable, "-c", code], encoding="utf-8")
    assert set(printed.split()) - set(sys.stdlib_module_names) == {"helpers"}
