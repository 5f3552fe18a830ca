"""Lesson 08's checks: every mistake is caught by name, nothing sound is blamed."""

import math
from itertools import combinations

import pytest
import torch
from findings import assert_all_right, assert_answers, assert_wrong
from torch import nn

from helpers.checks import lesson08
from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import TokenEmbedding
from helpers.transformer import Transformer


def assert_survives(check, answer, capsys):
    assert check(answer) is None
    assert_answers(capsys)


# ------------------------------------------------------------- 08.1 ids to logits

SOURCE = """\
def answer(parts, source, target):
    x = parts.positions(parts.source_embedding(source))
    memory = parts.encoder(x, padding_mask(source))
    y = parts.positions(parts.target_embedding(target))
    states = parts.decoder(y, memory, decoder_mask(target), padding_mask(source))
    return parts.projection(states)
"""
ENCODE = "parts.encoder(x, padding_mask(source))"
DECODE = "parts.decoder(y, memory, decoder_mask(target), padding_mask(source))"
END = "return parts.projection(states)"
EMBED_SOURCE = "parts.source_embedding(source)"
EMBED_TARGET = "parts.target_embedding(target)"


def answer(*changes, source=SOURCE):
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    names = {"padding_mask": padding_mask, "decoder_mask": decoder_mask}
    names |= {"causal_mask": causal_mask, "torch": torch, "nn": nn, "math": math}
    exec(source, names)
    return names["answer"]


def decode(mask, memory_mask):
    return (DECODE, f"parts.decoder(y, memory, {mask}, {memory_mask})")


SIDES = "source", "target"
ACROSS, BACK = "padding_mask(source)", "decoder_mask(target)"
MUTANTS = {
    "the memory's mask is missing": decode(BACK, "None"),
    "the memory's mask is made from the target": decode(BACK, "padding_mask(target)"),
    "the memory's mask is the decoder's own": decode(BACK, BACK),
    "the memory's mask is inverted": decode(BACK, "~padding_mask(source)"),
    "the decoder's mask is missing": decode("None", ACROSS),
    "the decoder's mask hides padding only": decode("padding_mask(target)", ACROSS),
    "the decoder's mask is inverted": decode("~decoder_mask(target)", ACROSS),
    "the decoder's mask is made from the source": decode(
        "decoder_mask(source)", ACROSS
    ),
    "the decoder's two masks are swapped": decode(ACROSS, BACK),
    "the encoder's mask is missing": (ENCODE, "parts.encoder(x)"),
    "the encoder's mask is causal": (ENCODE, "parts.encoder(x, decoder_mask(source))"),
    "the encoder's mask is inverted": (
        ENCODE,
        "parts.encoder(x, ~padding_mask(source))",
    ),
    "positions of the source are forgotten": (
        f"parts.positions({EMBED_SOURCE})",
        EMBED_SOURCE,
    ),
    "positions of the target are forgotten": (
        f"parts.positions({EMBED_TARGET})",
        EMBED_TARGET,
    ),
    "the source is embedded by the target's": (
        EMBED_SOURCE,
        "parts.target_embedding(source)",
    ),
    "the target is embedded by the source's": (
        EMBED_TARGET,
        "parts.source_embedding(target)",
    ),
    "the source's embeddings are scaled twice": (
        EMBED_SOURCE,
        f"{EMBED_SOURCE} * math.sqrt(16)",
    ),
    "the target's embeddings are scaled twice": (
        EMBED_TARGET,
        f"{EMBED_TARGET} * math.sqrt(16)",
    ),
    "looks at the embedded source, not at the memory": (
        DECODE,
        "parts.decoder(y, x, decoder_mask(target), padding_mask(source))",
    ),
    "the projection is missing": (END, "return states"),
    "multiplied with the source embedding's matrix": (
        END,
        "return states @ parts.source_embedding.weight.T",
    ),
    "multiplied with the target embedding's matrix": (
        END,
        "return nn.functional.linear(states, parts.target_embedding.weight)",
    ),
    "a softmax stands at the end": (END, END + ".softmax(-1)"),
    "a log-softmax stands at the end": (END, END + ".log_softmax(-1)"),
    "the target is shifted already": (
        "target):\n",
        "target):\n    target = target[:, :-1]\n",
    ),
}


def with_masks_of_its_own(parts, source, target):
    hidden = torch.ones(target.size(1), target.size(1)).triu(1).bool()
    mask = (target != 0)[:, None, None] & ~hidden
    memory = parts.encoder(
        parts.positions(parts.source_embedding(source)), (source != 0)[:, None, None]
    )
    y = parts.positions(parts.target_embedding(target))
    states = parts.decoder(y, memory, mask, (source != 0)[:, None, None])
    return states @ parts.projection.weight.T


@pytest.mark.parametrize("sound", [answer(), with_masks_of_its_own])
def test_right_logits(sound, seed):
    found = lesson08.logits.findings(sound, seed=seed)
    assert_all_right(found, 3)
    assert "padding of each side" in found[-1].text


def test_hiding_no_padding_of_the_target_is_right_and_said(seed):
    found = lesson08.logits.findings(
        answer(decode("causal_mask(target.size(1))", ACROSS)), seed=seed
    )
    assert_all_right(found, 3)
    assert "only padded places notice" in found[-1].text


@pytest.mark.parametrize("name", MUTANTS)
def test_mistakes_on_the_way_to_logits_are_named(name, seed):
    found = lesson08.logits.findings(answer(MUTANTS[name]), seed=seed)
    assert_wrong(found, name)


def test_two_mistakes_at_once_are_both_named():
    names = [f"positions of the {side} are forgotten" for side in SIDES]
    both = [MUTANTS[name] for name in names]
    assert_wrong(lesson08.logits.findings(answer(*both)), *names)
    both = [MUTANTS["the memory's mask is missing"], (END, END + ".softmax(-1)")]
    names = "the memory's mask is missing", "a softmax stands at the end"
    assert_wrong(lesson08.logits.findings(answer(*both)), *names)


def test_a_mask_that_does_not_fit_is_named_with_the_error():
    wrong = answer(MUTANTS["the memory's mask is made from the target"])
    found = lesson08.logits.findings(wrong)
    assert_wrong(found, "made from the target", "does not broadcast", "(line ")


def test_a_mask_that_does_not_fit_is_named_beside_another_mistake():
    changes = [MUTANTS["the memory's mask is made from the target"]]
    changes.append(MUTANTS["positions of the target are forgotten"])
    found = lesson08.logits.findings(answer(*changes))
    assert_wrong(found, "made from the target", "positions of the target")


def test_logits_without_gradient_or_of_one_length_are_found():
    found = lesson08.logits.findings(answer((END, END + ".detach()")))
    assert_wrong(found, "no gradient reaches the parts")
    rigid = answer(decode("decoder_mask(target)", "padding_mask(source[:, :7])"))
    assert_all_right(lesson08.logits.findings(rigid), 3)
    rigid = answer((END, "states[:, 4:] = 0; " + END))
    assert_wrong(lesson08.logits.findings(rigid), "wrong for 4 and 6")


@pytest.mark.slow
def test_logits_that_no_mistake_explains_are_described():
    found = lesson08.logits.findings(answer((END, END + " * 3")))
    assert_wrong(found, "the shape is right, the numbers are not")
    found = lesson08.logits.findings(answer((END, END + " * math.nan")))
    assert_wrong(found, "NaN or infinity")
    many = [MUTANTS[f"positions of the {side} are forgotten"] for side in SIDES]
    many += [decode(BACK, "None"), (END, END + ".softmax(-1)")]
    assert_wrong(lesson08.logits.findings(answer(*many)), "they sum to 1 at each")
    found = lesson08.logits.findings(answer((END, END + ".argmax(-1)")))
    assert_wrong(found, "(3, 5), not (3, 5, 30): a row for each target token")
    found = lesson08.logits.findings(answer((END, END + "[0]")))
    assert_wrong(found, "the logits have shape (5, 30), not (3, 5, 30)")
    found = lesson08.logits.findings(answer((END, "return memory, states")))
    assert_wrong(found, "return one tensor")


def test_changed_ids_are_named():
    found = lesson08.logits.findings(answer((END, "target[0] = 0; " + END)))
    assert_wrong(found, "changes its inputs in place")


STRANGE = {
    "nothing": lambda *x: None,
    "a string": lambda *x: "logits",
    "the inputs": lambda *x: x,
    "no tensor": lambda *x: [[1.0]],
    "no dimension": lambda *x: torch.tensor(1.0),
    "no elements": lambda *x: torch.zeros(0),
    "integers": lambda *x: torch.ones(3, 5, 30, dtype=torch.long),
    "complex": lambda *x: torch.ones(3, 5, 30) * 1j,
    "sparse": lambda *x: torch.ones(3, 5, 30).to_sparse(),
    "on no device": lambda *x: torch.ones(3, 5, 30, device="meta"),
    "a model": lambda *x: nn.Linear(2, 2),
    "empty parts": lambda *x: nn.ModuleDict(),
    "a dictionary": lambda *x: {"logits": 1},
    "a class": dict,
    "a number": 3,
    "no argument": lambda: 1,
    "division": lambda *x: 1 / 0,
    "infinity": lambda *x: math.inf,
    "nan": lambda *x: math.nan,
    "minus one": lambda *x: -1,
    "true": lambda *x: True,
}


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize(
    "check",
    [lesson08.logits, lesson08.tied, lesson08.count],
    ids=lambda check: check.__name__,
)
def test_no_answer_is_too_strange(check, name, capsys):
    assert_survives(check, STRANGE[name], capsys)


@pytest.mark.parametrize("check", [lesson08.logits, lesson08.tied, lesson08.count])
def test_not_attempted(check):
    assert [f.mark for f in check.findings(lambda *x: None)] == ["○"]
    assert [f.mark for f in check.findings(None)] == ["○"]


# ------------------------------------------------------------------ 08.2 tying


def by_weight(parts):
    parts.target_embedding.weight = parts.source_embedding.weight
    parts.projection.weight = parts.source_embedding.weight
    return parts


def by_module(parts):
    parts["target_embedding"] = parts["source_embedding"]
    parts["projection"].weight = parts["source_embedding"].weight
    return parts


def by_projection(parts):
    parts.source_embedding.weight = parts.projection.weight
    parts.target_embedding.weight = parts.projection.weight
    return parts


def by_new_parameter(parts):
    one = nn.Parameter(torch.randn(30, 16) / 4)
    for name in lesson08.PLACES:
        getattr(parts, name).weight = one
    return parts


@pytest.mark.parametrize("sound", [by_weight, by_module, by_projection])
def test_right_ties(sound):
    assert_all_right(lesson08.tied.findings(sound), 4)
    assert_all_right(lesson08.tied.findings(by_new_parameter), 4)


def by_copy(parts):
    with torch.no_grad():
        parts.target_embedding.weight.copy_(parts.source_embedding.weight)
        parts.projection.weight.copy_(parts.source_embedding.weight)
    return parts


def by_data(parts):
    parts.target_embedding.weight.data = parts.source_embedding.weight.data
    parts.projection.weight.data = parts.source_embedding.weight.data
    return parts


def by_wrapping(parts):
    parts.target_embedding.weight = nn.Parameter(parts.source_embedding.weight)
    parts.projection.weight = nn.Parameter(parts.source_embedding.weight)
    return parts


def by_clone(parts):
    clone = parts.source_embedding.weight.detach().clone()
    parts.target_embedding.weight = nn.Parameter(clone.clone())
    parts.projection.weight = nn.Parameter(clone)
    return parts


def embeddings_only(parts):
    parts.target_embedding = parts.source_embedding
    return parts


def target_and_projection_only(parts):
    parts.projection.weight = parts.target_embedding.weight
    return parts


def source_and_projection_only(parts):
    parts.projection.weight = parts.source_embedding.weight
    return parts


def untouched(parts):
    return parts


def without_return(parts):
    by_weight(parts)


def copy_without_return(parts):
    by_copy(parts)


def modules_too(parts):
    by_weight(parts)
    parts.projection = parts.source_embedding
    return parts


def leaves_one_over(parts):
    parts.spare = TokenEmbedding(30, 16)
    return by_weight(parts)


def frozen(parts):
    by_weight(parts).source_embedding.weight.requires_grad_(False)
    return parts


class Deaf(nn.Linear):
    """A projection that uses another matrix than its weight."""

    def forward(self, x):
        return x @ self.weight.detach().T


def cut_off(parts):
    parts.projection = Deaf(16, 30, bias=False)
    return by_weight(parts)


def removed(parts):
    del parts["projection"]
    return parts


def one_part(parts):
    return by_weight(parts).projection.weight


def transposed(parts):
    parts.projection.weight = nn.Parameter(parts.source_embedding.weight.T)
    return parts


def without_parameter(parts):
    parts.projection.weight = parts.source_embedding.weight * 1
    return parts


@pytest.mark.parametrize(
    ("wrong", "parts"),
    [
        (by_copy, ["the same numbers, but 3 parameters", "until the first step"]),
        (by_clone, ["the same numbers, but 3 parameters"]),
        (
            by_data,
            ["share their memory but are 3 parameters", "moves the same numbers"],
        ),
        (by_wrapping, ["share their memory but are 3 parameters"]),
        (embeddings_only, ["projection still has a matrix of its own"]),
        (
            target_and_projection_only,
            ["source_embedding still has a matrix of its own"],
        ),
        (
            source_and_projection_only,
            ["target_embedding still has a matrix of its own"],
        ),
        (untouched, ["each of the three still has a matrix of its own"]),
        (transposed, ["each of the three still has a matrix of its own"]),
        (without_return, ["something was changed, but nothing returned"]),
        (copy_without_return, ["something was changed, but nothing returned"]),
        (modules_too, ["make no logits any more", "share the *weight*"]),
        (leaves_one_over, ["2 · 30 · 16 = 960", "not 480"]),
        (cut_off, ["some tokens get no gradient"]),
        (frozen, ["asks for no gradient"]),
        (removed, ["parts.projection has no parameter"]),
        (one_part, ["return the parts, all of them, not: Parameter"]),
        (without_parameter, ["TypeError", "(line "]),
    ],
)
def test_wrong_ties_are_named(wrong, parts):
    assert_wrong(lesson08.tied.findings(wrong), *parts)


# --------------------------------------------------------------- 08.3 counting

COUNT = """\
def answer(c):
    d, V, W = c.d_model, c.source_vocab, c.target_vocab
    attention = 4 * d * d + 4 * d
    ffn = 2 * d * c.d_ff + c.d_ff + d
    norms = 10 * d
    layers = c.n_layers * (3 * attention + 2 * ffn + norms)
    vectors = V if c.share_embeddings else V + 2 * W
    last = 4 * d if c.norm_first else 0
    return d * vectors + layers + last
"""
COUNT_MUTANTS = {
    "the biases of the attentions are missing": (" + 4 * d\n", "\n"),
    "the biases of the feed-forward networks are missing": (" + c.d_ff + d", ""),
    "feed-forward network are counted with one size": ("+ c.d_ff + d", "+ 2 * d"),
    "an attention is counted with one bias": (" + 4 * d\n", " + d\n"),
    "a feed-forward network is counted with one matrix": (
        "2 * d * c.d_ff",
        "d * c.d_ff",
    ),
    "one of the two feed-forward networks is missing": ("2 * ffn", "ffn"),
    "the decoder's two attentions are missing": ("3 * attention", "attention"),
    "shared embeddings are counted twice": ("V if c.share", "2 * V if c.share"),
    "the vectors of the tokens are missing": ("d * vectors + ", ""),
    "the norms are missing": ("2 * ffn + norms", "2 * ffn"),
    "a norm is counted with one vector": ("10 * d", "5 * d"),
    "the decoder's third norm is missing": ("10 * d", "8 * d"),
    "the cross-attention is missing": ("3 * attention", "2 * attention"),
    "the output projection of the attentions is missing": (
        "4 * d * d + 4 * d",
        "3 * d * d + 3 * d",
    ),
    "the attention is counted once for each head": (
        "attention = 4 * d * d + 4 * d",
        "attention = c.n_heads * (4 * d * d + 4 * d)",
    ),
    "shared embeddings are counted more than once": (
        "V if c.share_embeddings else V + 2 * W",
        "V + 2 * W",
    ),
    "separate embeddings are counted once": (
        "V if c.share_embeddings else V + 2 * W",
        "W",
    ),
    "separate embeddings are counted without the projection": ("V + 2 * W", "V + W"),
    "with the source's vocabulary": ("V + 2 * W", "2 * V + W"),
    "the projection is counted with a bias": ("return ", "return W + "),
    "the positions are counted": ("return ", "return c.max_length * d + "),
    "the last norms of norm first are missing": ("layers + last", "layers"),
    "one last norm of norm first is missing": ("last = 4 * d", "last = 2 * d"),
    "last norms are counted with norm last, too": (" if c.norm_first else 0", ""),
    "only one layer is counted": ("c.n_layers * (", "("),
}


def count_answer(*changes):
    return answer(*changes, source=COUNT)


def by_building(config):
    with torch.device("meta"):
        return sum(p.numel() for p in Transformer(config).parameters())


@pytest.mark.parametrize(
    "sound",
    [
        count_answer(),
        by_building,
        lambda c: float(by_building(c)),
        lambda c: torch.tensor(by_building(c)),
    ],
)
def test_right_counts(sound):
    found = lesson08.count.findings(sound)
    assert_all_right(found, 5)
    assert found[3].text == "base: 63,082,496" and found[4].text == "big: 214,245,376"


@pytest.mark.parametrize("name", COUNT_MUTANTS)
def test_mistakes_in_counting_are_named(name):
    wrong = count_answer(COUNT_MUTANTS[name])
    assert_wrong(lesson08.count.findings(wrong), name)


def test_two_mistakes_in_counting_are_both_named():
    names = "the norms are missing", "the projection is counted with a bias"
    wrong = count_answer(*(COUNT_MUTANTS[name] for name in names))
    assert_wrong(lesson08.count.findings(wrong), *names)


def test_many_small_things_forgotten_are_named():
    """Five mistakes; three of them show with shared embeddings and norm last."""
    bare = count_answer(
        (" + 4 * d\n", "\n"),
        (" + c.d_ff + d", ""),
        ("2 * ffn + norms", "2 * ffn"),
        ("V if c.share_embeddings else V + 2 * W", "W"),
        ("layers + last", "layers"),
    )
    parts = "with shared embeddings and norm last", "biases of the attentions"
    found = lesson08.count.findings(bare)
    assert_wrong(found, *parts, "biases of the feed-forward", "the norms are missing")


def test_no_mistake_in_counting_comes_to_the_counts_of_another_or_of_two():
    seen = {}
    for number in (0, 1, 2):
        for made in combinations(lesson08.COUNT_MISTAKES, number):
            steps = [step for mistake in made for step in mistake.steps.items()]
            if len(dict(steps)) == len(steps):
                configs = lesson08.CONFIGS.values()
                counts = tuple(lesson08.counted(c, **dict(steps)) for c in configs)
                # Two pairs may come to the same: -12 d - 2 d is -9 d - 5 d.
                assert number == len(seen.get(counts, made)) == 2 or counts not in seen
                seen[counts] = made


UNLISTED = [
    ("10 * d", "6 * d"),
    ("4 * d * d + 4 * d", "4 * d * d // c.n_heads + 4 * d"),
    ("c.n_layers", "2 * c.n_layers"),
    ("c.n_layers", "(c.n_layers + 1)"),
    ("d * vectors + layers + last", "1e-6 * (d * vectors + layers + last)"),
    ("d * vectors + layers + last", "d * vectors"),
]


@pytest.mark.parametrize("change", UNLISTED)
def test_a_mistake_that_is_not_in_the_list_is_not_called_by_another_name(change):
    found = lesson08.count.findings(count_answer(change))
    assert_wrong(found, "has just that size, or a multiple?")


def test_a_count_that_no_mistake_explains_is_described():
    found = lesson08.count.findings(count_answer(("return ", "return 7 + ")))
    assert_wrong(found, "shared embeddings (d_model 46", "7 too many, 1 a layer")
    only = ("return ", "return (-3 if c.norm_first else 0) + ")
    assert_wrong(lesson08.count.findings(count_answer(only)), "norm first", "3 too few")


def test_a_size_that_is_written_down_is_found():
    rigid = count_answer(("10 * d", "10 * {46: 46, 8: 8}.get(d, 12)"))
    found = lesson08.count.findings(rigid)
    assert [finding.mark for finding in found] == ["✓"] * 3 + ["✗"]
    assert found[-1].text.startswith("base: ") and "not 63,082,496" in found[-1].text


# ------------------------------------------------------------- 08.4 first losses


def test_the_first_losses_are_what_the_lesson_says():
    losses = lesson08.first_losses()
    by_fault = {lesson08.FAULTS[name]: loss for name, loss in losses.items()}
    uniform = math.log(1000)
    assert 0.4 < by_fault["healthy"] - uniform < 0.7
    assert by_fault["sum, not mean"] / by_fault["healthy"] == pytest.approx(32 * 12)
    assert by_fault["labels not shifted"] < uniform - 3
    assert abs(by_fault["no softmax"]) < 0.2
    assert 50 < by_fault["embeddings of std 1"] < 70
    assert by_fault["softmax twice"] == pytest.approx(uniform, abs=0.005)
    # Printed with two decimals, so none may lie at a rounding edge.
    assert all(abs(100 * x % 1 - 0.5) > 0.01 for x in losses.values())


def test_the_first_losses_leave_the_learner_s_random_numbers_alone():
    before = torch.get_rng_state()
    lesson08.first_losses()
    lesson08.logits.findings(answer())
    assert torch.equal(torch.get_rng_state(), before)


def test_right_diagnoses_however_written():
    assert_all_right(lesson08.diagnosis.findings(**lesson08.FAULTS), 6)
    loose = lesson08.FAULTS | {"A": "Sum not mean.", "D": "“no softmax”"}
    assert_all_right(lesson08.diagnosis.findings(**loose), 6)
    shouted = {name: f" {fault.upper()} " for name, fault in lesson08.FAULTS.items()}
    assert_all_right(lesson08.diagnosis.findings(**shouted), 6)


def test_diagnoses_not_attempted():
    for answers in ({}, dict.fromkeys(lesson08.FAULTS)):
        found = lesson08.diagnosis.findings(**answers)
        assert [finding.mark for finding in found] == ["○"] * 6


@pytest.mark.parametrize("name", lesson08.FAULTS)
@pytest.mark.parametrize("said", lesson08.HINTS)
def test_wrong_diagnoses_get_a_hint_and_not_the_answer(name, said):
    fault = lesson08.FAULTS[name]
    if said == fault:
        return
    found = lesson08.diagnosis.findings(**(lesson08.FAULTS | {name: said}))
    (wrong,) = (finding for finding in found if finding.mark == "✗")
    assert wrong.text == f"model {name} is not “{said}”: {lesson08.HINTS[fault]}"
    assert f"“{fault}”" not in wrong.text


@pytest.mark.parametrize("odd", ["sick", 3, [], torch.ones(2), {}, nn.Linear(1, 1)])
def test_diagnoses_that_are_none_of_the_six(odd):
    found = lesson08.diagnosis.findings(A=odd)
    assert found[0].mark == "✗" and "is none of the six" in found[0].text
