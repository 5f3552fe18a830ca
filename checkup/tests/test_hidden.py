"""Nothing good is said about what was not looked at; and other conventions of ids."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults import SOUND
from faults.small_decoders import EACH, HEADS, LONGEST, WIDTH, lower
from faults.small_plain import PlainGPT
from transformer_checkup import Subject, assert_sound, properties
from transformer_checkup.adapters import of_hugging_face
from transformer_checkup.properties import CHECKS

CHECKUP = Path(__file__).parents[1]


class Hidden(nn.Module):
    """Its layers are dicts of parts, and its own forward computes with their weights.

    No hook sees a layer, an attention or a matrix: none of them is called.
    """

    def __init__(self, vocab=40):
        super().__init__()
        self.read, self.places = (
            nn.Embedding(vocab, WIDTH),
            nn.Embedding(LONGEST, WIDTH),
        )
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(WIDTH),
                    **{n: nn.Linear(WIDTH, WIDTH) for n in "qkvo"},
                    "up": nn.Linear(WIDTH, 2 * WIDTH, bias=False),
                    "down": nn.Linear(2 * WIDTH, WIDTH, bias=False),
                }
            )
            for _ in range(2)
        )
        self.write = nn.Linear(WIDTH, vocab, bias=False)

    def begin(self, tokens: Tensor) -> Tensor:
        words = F.embedding(tokens, self.read.weight)
        return words + self.places.weight[: tokens.size(1)]

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)

    def values(self, v: Tensor) -> Tensor:
        return v

    def attend(self, x: Tensor, layer: nn.ModuleDict) -> Tensor:
        q, k, v = (
            F.linear(x, layer[n].weight, layer[n].bias)
            .unflatten(-1, (HEADS, EACH))
            .transpose(1, 2)
            for n in "qkv"
        )
        hidden = ~lower(x.size(1), x.device)
        scores = q @ k.mT * EACH**-0.5
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        mixed = (self.softmax(scores) @ self.values(v)).transpose(1, 2).flatten(2)
        return F.linear(mixed, layer["o"].weight, layer["o"].bias)

    def block(self, x: Tensor, layer: nn.ModuleDict) -> Tensor:
        norm = layer["norm"]
        x = x + self.attend(F.layer_norm(x, (WIDTH,), norm.weight, norm.bias), layer)
        wide = F.gelu(F.linear(x, layer["up"].weight))
        return x + F.linear(wide, layer["down"].weight)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.begin(tokens)
        for layer in self.layers:
            x = self.block(x, layer)
        return F.linear(x, self.write.weight)


def no_residual(model):
    model.block = lambda x, layer: F.linear(
        F.gelu(F.linear(model.attend(x, layer), layer["up"].weight)),
        layer["down"].weight,
    )


def no_positions(model):
    model.begin = lambda tokens: F.embedding(tokens, model.read.weight)


def raw_exponents(model):
    model.softmax = lambda scores: scores.exp() / scores.exp().sum(-1, keepdim=True)


def unread_values(model):
    half = torch.arange(HEADS)[:, None, None] < HEADS // 2
    model.values = lambda v: torch.where(half, v, v.flip(1))


def twice_the_same(model):
    model.layers[1] = model.layers[0]


FAULTS_IN_HIDING = {
    "residuals carry": no_residual,
    "order aware": no_positions,
    "finite in half precision": raw_exponents,
    "all parameters learn": unread_values,
    "weights shared as meant": twice_the_same,
}


@pytest.mark.parametrize("check", FAULTS_IN_HIDING)
def test_a_fault_that_hides_from_hooks_gets_no_tick(check):
    torch.manual_seed(0)
    model = Hidden()
    FAULTS_IN_HIDING[check](model)
    assert CHECKS[check](Subject(model, 40, kind="decoder")).holds is not True


@pytest.mark.parametrize("check", [*CHECKS])
def test_a_model_that_hides_from_hooks_gets_no_cross(check):
    torch.manual_seed(0)
    subject = Subject(Hidden(), 40, kind="decoder")
    verdict = CHECKS[check](subject)
    assert verdict.holds is not False, verdict.text
    if check in ("residuals carry", "order aware"):
        assert verdict.holds or verdict.sentence


UNTOUCHED = ("causal", "reads its own token", "state is saved", "dtype moves")
UNTOUCHED += ("weights shared as meant", "residuals carry", "finite in half precision")


@pytest.mark.parametrize("check", UNTOUCHED)
def test_a_constant_gets_no_tick_for_what_needs_a_model(check):
    def constant(tokens):
        return torch.linspace(0, 1, 30).expand(*tokens.shape, -1)

    subject = Subject(constant, 30, kind="decoder", module=nn.Identity())
    assert CHECKS[check](subject).holds is not True


# -- conventions -----------------------------------------------------------------------


class Padded(nn.Module):
    """A sound encoder–decoder that knows its padding by this id."""

    def __init__(self, pad):
        super().__init__()
        self.inner, self.pad = SOUND["einsum"].build(40, 0), pad
        self.inner.words = lambda tokens: (tokens != pad)[:, None, None]

    def forward(self, source, target):
        return self.inner(source, target)


@pytest.mark.parametrize(
    "given",
    [
        {"pad": 1, "bos": 0},  # BART's
        {"pad": 39, "bos": None, "special": ()},  # as GPT-2, whose end mark pads
        {"pad": 3, "bos": 39, "special": (5, 9)},
    ],
)
def test_padding_and_start_may_have_any_id(given):
    subject = Subject(Padded(given["pad"]), 40, **given)
    source, target = subject.sentences()
    no_words = {given["pad"], given["bos"], *given.get("special", (0, 1, 2, 3))}
    assert no_words.isdisjoint(
        {*source.unique().tolist(), *target[:, 1:].unique().tolist()}
    )
    starts = {*target[:, 0].tolist()}
    assert starts == {given["bos"]} or given["bos"] is None
    assert properties.padding_invariant(subject).holds
    other = Subject(Padded(0), 40, **given)
    assert properties.padding_invariant(other).holds is False


def test_hugging_face_s_ids_are_those_of_the_configuration():
    model = SOUND["BART"].build(40, 0)
    model.config.pad_token_id, model.config.decoder_start_token_id = 1, 3
    subject = of_hugging_face(model)
    assert (subject.pad, subject.bos) == (1, 3)


def test_too_few_words_are_refused():
    with pytest.raises(ValueError, match="at least 8"):
        Subject(PlainGPT(9), 7, kind="decoder")
    with pytest.raises(ValueError, match="pad must be an id below"):
        Subject(PlainGPT(9), 9, kind="decoder", pad=9)
    assert Subject(PlainGPT(9), 6, kind="decoder", bos=None, special=()).vocab == 6


# -- in a shell ------------------------------------------------------------------------

CANDIDATE = """
import torch
from faults.small_plain import PlainGPT

def build():
    torch.manual_seed(0)
    model = PlainGPT(30)
    for block in model.body:
        block.weigh = lambda scores: scores.softmax(-1)
    return model
"""


@pytest.mark.slow
def test_a_console_of_windows_gets_the_report(tmp_path):
    (tmp_path / "candidate.py").write_text(CANDIDATE, "utf-8")
    paths = [str(tmp_path), str(CHECKUP), str(CHECKUP / "tests"), str(CHECKUP.parent)]
    given = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "cp1252"}
    command = [sys.executable, "-m", "transformer_checkup", "candidate:build"]
    command += ["--kind", "decoder", "--vocab", "30", "--only", "runs"]
    ran = subprocess.run(
        [*command, "--only", "causal"], capture_output=True, env=os.environ | given
    )
    said = ran.stdout.decode("cp1252").splitlines()
    assert ran.returncode == 1
    assert [line.split()[0] for line in said][:2] == ["ok", "FAIL"]


def test_a_report_names_the_function_that_does_otherwise():
    model = SOUND["plain GPT"].build(30, 0)
    for block in model.body:
        block.weigh = lambda scores: scores.softmax(-1)
    verdict = properties.causal(Subject(model, 30, kind="decoder"))
    line = (lambda: None).__code__.co_firstlineno - 2
    assert verdict.suspects[0].method == f"<lambda> (test_hidden.py:{line})"
    with pytest.raises(AssertionError, match="test_hidden"):
        assert_sound(Subject(model, 30, kind="decoder"), only=["causal"])
