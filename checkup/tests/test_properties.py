"""The property checks: no false alarm on sound models, and each is needed."""

import math
import warnings

import pytest
import torch
from matplotlib import pyplot as plt
from torch import nn

from benchmarks.torch_translator import TorchTranslator
from helpers import PAD
from lessons.lesson15.adapters import of_course
from lessons.lesson15.breaking import small_model, swap
from lessons.lesson15.mutants import MUTANTS, OpenAttention
from transformer_checkup import properties
from transformer_checkup.properties import CHECKS, Subject, failing
from transformer_checkup.report import report_on

SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}


def of_torch(seed, norm_first=False):
    model = TorchTranslator(50, 60, **SIZES, norm_first=norm_first)
    return Subject(model, 50, 60, seed=seed)


def alarms(subject, leave_out=()):
    report = report_on(subject, only=[n for n in CHECKS if n not in leave_out])
    return {v.name: v.sentence for v in report.failed}


# The first seed always, the others with `make test-long`.
EACH_SEED = pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2))]
)
EACH_ORDER = pytest.mark.parametrize("norm_first", [False, True])


@pytest.mark.slow
@EACH_ORDER
@EACH_SEED
def test_no_false_alarm_on_ours(norm_first, number):
    dropout = 0.1 * norm_first
    model = small_model(number, norm_first=norm_first, dropout=dropout)
    report = report_on(of_course(model, seed=number))
    assert [verdict for verdict in report if verdict.holds is not True] == []


@pytest.mark.slow
def test_no_false_alarm_on_shared_embeddings():
    model = small_model(0, share_embeddings=True)
    assert alarms(of_course(model), leave_out=[SLOW]) == {}


def test_the_fast_path_of_pytorch_is_off_where_it_makes_nan():
    subject = of_torch(0)
    source, target = subject.sentences()
    source[1] = PAD
    rows = subject.logits(source, target).isnan().flatten(1).any(1)
    assert rows.tolist() == [False, True, False, False]
    assert properties.finite_without_source(subject).holds
    assert torch.backends.mha.get_fastpath_enabled()


# Seen from outside, a model can only be called.
FROM_INSIDE = {"steps equal parallel", "attention is sound"}
WATCHED = {name for broken in MUTANTS.values() for name in broken.caught_by}
SLOW = "overfits one batch"  # trains, and longest where it fails
ONE_OF_EACH = ("no causal mask", "the memory is ignored")
EACH_MUTANT = pytest.mark.parametrize("broken", MUTANTS.values(), ids=MUTANTS)


@pytest.mark.slow
@EACH_MUTANT
@EACH_SEED
def test_a_mutant_is_caught_by_its_checks_and_no_other(broken, number):
    left_out = [SLOW]
    left_out += [name for name in CHECKS if name not in WATCHED]
    found = alarms(broken.build(number), leave_out=left_out)
    assert [*found] == [name for name in broken.caught_by if name not in left_out]


# In an ordinary run one that learns, and one that does not.
LEARNERS = [
    pytest.param(broken, marks=[] if fault in ONE_OF_EACH else pytest.mark.long)
    for fault, broken in MUTANTS.items()
]


@pytest.mark.slow
@pytest.mark.parametrize("broken", LEARNERS, ids=MUTANTS)
def test_a_mutant_learns_four_sentences_unless_that_is_its_fault(broken):
    assert CHECKS[SLOW](broken.build()).holds is (SLOW not in broken.caught_by)


def test_every_check_has_a_mutant_that_it_alone_catches():
    alone = set()
    for broken in MUTANTS.values():
        outside = [name for name in broken.caught_by if name not in FROM_INSIDE]
        for names in (broken.caught_by, outside):
            alone |= set(names) if len(names) == 1 else set()
    assert alone == WATCHED


@pytest.mark.slow
def test_from_outside_the_causal_mask_is_missed_by_one_check_alone():
    for fault in ("no causal mask", "causal mask one place too wide"):
        subject = MUTANTS[fault].build(0, steps=None, attention=None)
        assert alarms(subject, leave_out=[SLOW]).keys() == {"causal"}


def test_attention_taken_apart_is_sound():
    model, reference = small_model(0), small_model(0)
    swap(model, OpenAttention)
    subject = of_course(model)
    assert alarms(subject, leave_out=[SLOW]) == {}
    batch = subject.sentences()
    torch.testing.assert_close(
        subject.logits(*batch), of_course(reference).logits(*batch)
    )


def test_failing_names_the_checks_in_their_order():
    broken = MUTANTS["masks repeated in another order than heads"]
    names = [name for name in CHECKS if name != SLOW]
    found = failing(broken.build(), only=names)
    assert found == ("independent of neighbours", "attention is sound")


def test_maps_of_another_shape_and_no_maps():
    model = small_model(0)
    turned = of_course(
        model, attention=lambda s, t: {"cross": [torch.ones(4, 4, 9, 8)]}
    )
    verdict = properties.attention_is_sound(turned)
    assert "(4, 4, 9, 8), not (4, heads, 8, 9)" in verdict.sentence
    empty = of_course(model, attention=lambda s, t: {"cross": [], "encoder": []})
    assert properties.attention_is_sound(empty).holds is None


def test_what_cannot_be_judged_is_said_to_be_so():
    model = small_model(0)
    bare = Subject(lambda source, target: model(source, target), 50, 60)
    unknown = {n: v.sentence for n, c in CHECKS.items() if (v := c(bare)).holds is None}
    assert unknown.keys() == {
        "steps equal parallel",
        "attention is sound",
        "all parameters learn",
        "layers read the source",
        "residuals carry",
        "overfits one batch",
        "state moves",
        "weights shared as meant",
        "state is saved",
        "dtype moves",
        "modes differ by dropout",
    }
    assert all("given" in sentence for sentence in unknown.values())


def test_a_trained_model_is_not_asked_what_a_fresh_one_does():
    subject = of_course(small_model(0), trained=True)
    for name in ("initial loss", "overfits one batch"):
        assert CHECKS[name](subject).holds is None


@pytest.mark.parametrize(
    "model, sentence",
    [
        (lambda s, t: None, "gives NoneType where logits (4, 8, 60) are expected"),
        (lambda s, t: torch.zeros(4, 60), "gives (4, 60) where logits (4, 8, 60)"),
        (lambda s, t: s @ t, "stops on source (4, 9), target (4, 8) with RuntimeError"),
    ],
)
def test_a_model_of_another_form_is_told_what_is_expected(model, sentence):
    assert sentence in properties.runs(Subject(model, 50, 60)).sentence


def test_nothing_else_is_asked_of_a_model_that_gives_nan():
    nothing = Subject(lambda s, t: torch.full((*t.shape, 60), math.nan), 50, 60)
    verdict = properties.finite(nothing)
    assert verdict.sentence == "4 of 4 sentences get NaN or infinity, without padding"
    for name in ("same twice", "causal", "initial loss", "finite in half precision"):
        verdict = CHECKS[name](nothing)
        assert verdict.holds is None, name
        assert verdict.sentence == "cannot be told while “finite” fails"


class Listed(nn.Module):
    """Keeps its layers in a plain list."""

    def __init__(self):
        super().__init__()
        self.inner = small_model(0)
        self.extra = [nn.Linear(60, 60)]

    def forward(self, source, target):
        return self.extra[0](self.inner(source, target))


class MovedByHand(nn.Module):
    """A plain table that is fetched to the input's device each time, as d2l's."""

    def __init__(self):
        super().__init__()
        self.inner = small_model(0)
        self.offset = torch.randn(60)
        self.last_logits = None  # kept for plots, never read

    def forward(self, source, target):
        self.last_logits = self.inner(source, target) + self.offset.to(source.device)
        return self.last_logits


def test_modules_in_a_plain_list_do_not_move():
    verdict = properties.state_moves(Subject(Listed(), 50, 60))
    assert not verdict.holds
    assert "extra is a plain list of modules" in verdict.sentence


def test_what_is_moved_by_hand_or_only_kept_may_be_plain():
    assert properties.state_moves(Subject(MovedByHand(), 50, 60)).holds


@pytest.fixture
def drawn(monkeypatch):
    """Draws a verdict's picture; gives its axes, the colour bar's, and its numbers."""

    def draw(verdict):
        monkeypatch.setattr(plt, "show", lambda: None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            verdict.draw()
            figure = plt.gcf()
            figure.canvas.draw()
        plt.close("all")
        ax, bar = figure.axes
        return ax, bar, torch.as_tensor(ax.collections[0].get_array().filled(-1))

    return draw


class Bag(nn.Module):
    """The mean of the source's words beside each target word: no position anywhere."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Embedding(50, 60), nn.Embedding(60, 60)

    def forward(self, source, target):
        real = (source != PAD)[..., None]
        memory = (self.read(source) * real).sum(1, keepdim=True) / real.sum(
            1, keepdim=True
        )
        return self.write(target) + memory


def test_padding_in_front_is_asked_only_of_who_claims_to_bear_it():
    model = small_model(0)
    assert properties.padding_invariant(of_course(model)).holds
    claimed = properties.padding_invariant(of_course(model, left_padding=True))
    assert "three PADs before the source move" in claimed.sentence
    for left_padding in (False, True):
        subject = Subject(Bag(), 50, 60, left_padding=left_padding)
        assert properties.padding_invariant(subject).holds, left_padding


class SeesTargetPadding(nn.Module):
    """Adds the number of PADs in the target to one logit of its last real token."""

    def __init__(self):
        super().__init__()
        self.inner = small_model(0)

    def forward(self, source, target):
        logits = self.inner(source, target)
        last = (target != PAD).sum(1) - 1
        rows = torch.arange(len(target))
        extra = torch.zeros_like(logits)
        extra[rows, last, 7] = (target == PAD).sum(1).float()
        return logits + extra


def test_padding_of_the_target_is_asked_too(drawn):
    verdict = properties.padding_invariant(Subject(SeesTargetPadding(), 50, 60))
    assert "three PADs behind the target move" in verdict.sentence
    *_, moved = drawn(verdict)
    assert (moved[:4] < 1e-4).all() and (moved[4:, :-1] < 1e-4).all()
    assert (moved[4:, -1] > 1).all()


def test_longer_neighbours_are_asked_about_as_padding():
    """Alone at its own length and among longer ones, a sentence differs here."""
    subject = MUTANTS["no padding mask in cross-attention"].build()
    source, target = subject.sentences()
    source[0, 5:] = PAD
    short = subject.logits(source[:1, :5], target[:1])
    assert (short - subject.logits(source, target)[:1]).abs().max() > 0.01
    verdict = properties.independent_of_neighbours(subject)
    assert verdict.holds and verdict.sentence.startswith("padded to one length")
    assert properties.padding_invariant(subject).holds is False


@pytest.mark.parametrize(
    ("name", "fault", "labels"),
    [
        ("causal", "no causal mask", [str(i) for i in range(8)]),
        (
            "padding invariant",
            "no padding mask in cross-attention",
            [f"behind the {side}, sentence {i}" for side in ("source", "target")
             for i in (1, 2, 3, 4)],
        ),
        (
            "independent of neighbours",
            "masks repeated in another order than heads",
            [f"source {9 - i}, target {5 + i}" for i in range(4)],
        ),
    ],
)  # fmt: skip
def test_a_leak_is_drawn_where_it_is(drawn, name, fault, labels):
    verdict = CHECKS[name](MUTANTS[fault].build())
    ax, bar, moved = drawn(verdict)
    assert [label.get_text() for label in ax.get_yticklabels()] == labels
    assert moved.shape == (len(labels), 8) and len(ax.get_xticklabels()) == 8
    leaks = moved.triu(1) if name == "causal" else moved
    assert f"≈ {leaks.max():.2g} of their spread" in verdict.sentence
    assert bar.get_ylabel() == "change, in spreads"
    if name == "padding invariant":  # the target's padding is masked in this model
        assert (moved[:4].amax(1) > 0.1).all() and (moved[4:] < 1e-4).all()
    if name == "independent of neighbours":  # -1: blank, where the target is padding
        assert (moved == -1).sum(1).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("name", ["padding invariant", "independent of neighbours"])
def test_infinity_is_drawn_without_a_warning(drawn, name):
    def model(source, target):
        logits = torch.arange(60.0).expand(*target.shape, 60).clone()
        if len(source) == 1 or source.size(1) != 9 or target.size(1) != 8:
            logits[:, 3] = math.inf
        return logits

    verdict = CHECKS[name](Subject(model, 50, 60))
    assert "≈ inf of their spread" in verdict.sentence
    *_, moved = drawn(verdict)
    assert moved.max() == pytest.approx(properties.TOLERANCE)


def test_the_first_difference_from_a_reference():
    def beside_sound(fault):
        reference, model = small_model(0), MUTANTS[fault].build().model
        reference.load_state_dict(model.state_dict())
        batch = of_course(reference).sentences()
        return properties.first_difference(model, reference, *batch)

    assert beside_sound("one layer, listed twice").endswith("is missing")
    assert beside_sound("hidden scores filled with -1e9") == "none"
    where = "encoder.layers.0.self_attention.output_projection"
    assert beside_sound("no scale") == where


@pytest.mark.slow
def test_examine_prints_a_line_for_each_and_draws_what_failed(capsys, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    subject = MUTANTS["no causal mask"].build(0, steps=None, attention=None)
    report = properties.examine(subject)
    *lines, summary = capsys.readouterr().out.splitlines()
    assert [v.name for v in report] == list(CHECKS)
    assert len([line for line in lines if line[0] in "✓✗○"]) == len(CHECKS)
    assert sum(line.startswith("✗ causal: a new token") for line in lines) == 1
    assert sum(v.draw is not None for v in report) == 1
    assert summary.startswith(
        "1 of 24 checks fail; look first at `decoder.layers.0.self_attention`"
    )
    assert "causal mask is missing" in summary
    assert report.text.splitlines() == [*lines, summary]


def test_a_second_fault_takes_effect_or_says_that_it_cannot():
    model = small_model(0)
    MUTANTS["no causal mask"].damage(model)
    MUTANTS["no scale"].damage(model)
    with pytest.raises(ValueError, match="SeesPadding changes nothing"):
        MUTANTS["no padding mask in cross-attention"].damage(model)
    with pytest.raises(ValueError, match=r"the model has no .*MultiHeadAttention"):
        MUTANTS["hidden scores filled with -inf"].damage(model)
