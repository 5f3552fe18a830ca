"""Lesson 12: score a role, the alignment error rate, a head switched off."""

from collections.abc import Callable, Collection, Iterator, Sequence
from numbers import Real

import torch
from torch import Tensor, nn

from helpers.attention import MultiHeadAttention
from helpers.checks.core import (
    Finding,
    Mistake,
    Stop,
    attempt,
    check,
    recognise,
    right,
    same,
    wrong,
)

# ------------------------------------------------------------------- 12.1 role score

ROLE = {
    # (batch, heads, query_length): the weight that falls on chosen keys
    "on": lambda weights, chosen: (weights * chosen[:, None]).sum(dim=-1),
    # (heads,): the mean over the queries that count
    "mean": lambda on, chosen: on.sum(dim=(0, 2)) / chosen.any(dim=-1).sum(),
}


def _role_score(weights: Tensor, chosen: Tensor, **steps) -> Tensor:
    steps = ROLE | steps
    return steps["mean"](steps["on"](weights, chosen), chosen)


def _by_sentence(on: Tensor, chosen: Tensor) -> Tensor:
    return (on.sum(dim=2) / chosen.any(dim=-1).sum(dim=-1)[:, None]).mean(dim=0)


def _largest(weights: Tensor, chosen: Tensor) -> Tensor:
    """1 where the largest weight lies on a chosen key."""
    top = weights.argmax(dim=-1, keepdim=True)
    return chosen[:, None].expand_as(weights).gather(-1, top)[..., 0].float()


ROLE_MISTAKES = [
    Mistake(
        "queries without a chosen key are counted",
        "divide by the number of rows of `chosen` that mark any key: "
        "`chosen.any(dim=-1).sum()`",
        {"mean": lambda on, chosen: on.mean(dim=(0, 2))},
    ),
    Mistake(
        "it is the mean weight of a chosen key",
        "a query's weights on its chosen keys are added up; count queries, not keys",
        {"mean": lambda on, chosen: on.sum(dim=(0, 2)) / chosen.sum()},
    ),
    Mistake(
        "keys are counted that some query chooses",
        "count queries with a chosen key: `chosen.any(dim=-1).sum()`",
        {"mean": lambda on, chosen: on.sum(dim=(0, 2)) / chosen.any(dim=1).sum()},
    ),
    Mistake(
        "it is a sum, not a mean",
        "divide by the number of queries that have a chosen key",
        {"mean": lambda on, chosen: on.sum(dim=(0, 2))},
    ),
    Mistake(
        "each sentence counts the same",
        "the mean runs over all queries of the batch; a mean of the sentences' means "
        "lets short ones count more",
        {"mean": _by_sentence},
    ),
    Mistake(
        "the heads are averaged",
        "sum over batch and queries alone, `dim=(0, 2)`, so that one number a head "
        "remains",
        {"mean": lambda on, chosen: ROLE["mean"](on, chosen).mean()},
    ),
    Mistake(
        "the sentences are kept apart",
        "one score for each head: the batch is summed over as well",
        {"mean": lambda on, chosen: on.sum(2) / chosen.any(-1).sum(-1)[:, None]},
    ),
    Mistake(
        "it counts how often the largest weight is on a chosen key",
        "that is a good measure too, but here the weights themselves are added",
        {"on": _largest},
    ),
    Mistake(
        "the weights are averaged over the keys",
        "a query's weights on its chosen keys are added up, `sum(dim=-1)`",
        {"on": lambda weights, chosen: (weights * chosen[:, None]).mean(dim=-1)},
    ),
    Mistake(
        "only the largest of the weights on chosen keys is taken",
        "a role may have several keys: add their weights",
        {"on": lambda weights, chosen: (weights * chosen[:, None]).amax(dim=-1)},
    ),
    Mistake(
        "the weights on all other keys are added",
        "`chosen` is True where a key plays the role",
        {"on": lambda weights, chosen: (weights * ~chosen[:, None]).sum(dim=-1)},
    ),
    Mistake(
        "queries and keys are swapped",
        "a row of `weights` and of `chosen` is a query; the sum over keys is the sum "
        "over the last axis",
        {"on": lambda weights, chosen: (weights * chosen[:, None].mT).sum(dim=-1)},
    ),
]


def _role_inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(12)
    weights = torch.randn(4, 3, 5, 5, generator=generator).mul(2).softmax(dim=-1)
    chosen = torch.rand(4, 5, 5, generator=generator) < 0.3
    chosen[0, 1:] = False  # sentences with few queries that count, and with many
    chosen[1, :, 2] = True
    return weights, chosen


@check
def role_score(function: Callable[[Tensor, Tensor], Tensor]) -> Iterator[Finding]:
    """Exercise 12.1: `function(weights, chosen)` gives a score for each head."""
    weights = torch.tensor([[[[0.2, 0.5, 0.3], [0.3, 0.3, 0.4], [0.1, 0.1, 0.8]]]])
    chosen = torch.tensor([[[True, True, False], [True, False, False], [False] * 3]])
    for inputs, praise in (
        ((weights, chosen), "the example by hand gives 0.5"),
        (_role_inputs(), "heads, sentences and queries without such a key are right"),
    ):
        output = attempt(function, *inputs)
        if isinstance(output, list | Real):
            output = torch.as_tensor(output)
        if not isinstance(output, Tensor):
            raise Stop(
                wrong(f"return a tensor (heads,), not a {type(output).__name__}")
            )
        expected = _role_score(*inputs)
        if same(output, expected):
            yield right(praise)
            continue
        # The second inputs tell more mistakes apart.
        inputs = _role_inputs()
        output, expected = attempt(function, *inputs), _role_score(*inputs)
        output = torch.as_tensor(output)
        if made := recognise(output, _role_score, ROLE_MISTAKES, inputs):
            raise Stop(wrong("; and ".join(f"{m.name}: {m.hint}" for m in made)))
        if output.shape != expected.shape:
            shapes = f"{tuple(output.shape)}, due is {tuple(expected.shape)}"
            raise Stop(wrong(f"one score for each head: the shape is {shapes}"))
        numbers = [
            ", ".join(f"{x:.3f}" for x in scores.flatten().tolist())
            for scores in (output, expected)
        ]
        text = f"three heads give {numbers[0]}, due is {numbers[1]}: add the weights "
        raise Stop(
            wrong(text + "on chosen keys, then average over queries that have any")
        )


# ---------------------------------------------------------- 12.2 alignment error rate

Links = Sequence[Collection[tuple[int, int]]]


def _counts(found: Links, truth: Links) -> list[tuple[int, int, int]]:
    """Of each sentence: links shared, found, true."""
    pairs = [(set(f), set(t)) for f, t in zip(found, truth, strict=True)]
    return [(len(f & t), len(f), len(t)) for f, t in pairs]


def _error_rate(found: Links, truth: Links) -> float:
    shared, ours, theirs = map(sum, zip(*_counts(found, truth), strict=True))
    return 1 - 2 * shared / (ours + theirs)


def _of_sums(formula: Callable[[int, int, int], float]) -> Callable:
    def rate(found: Links, truth: Links) -> float:
        return formula(*map(sum, zip(*_counts(found, truth), strict=True)))

    return rate


def _mean_of_sentences(found: Links, truth: Links) -> float:
    rates = [1 - 2 * s / (f + t) for s, f, t in _counts(found, truth)]
    return sum(rates) / len(rates)


def _with_repeats(found: Links, truth: Links) -> float:
    shared = sum(link in t for f, t in zip(found, truth, strict=True) for link in f)
    return 1 - 2 * shared / sum(map(len, [*found, *truth]))


def _repeats_in_size(found: Links, truth: Links) -> float:
    shared = sum(s for s, _, _ in _counts(found, truth))
    return 1 - 2 * shared / sum(map(len, [*found, *truth]))


def _one_bag(found: Links, truth: Links) -> float:
    ours, theirs = ({link for row in side for link in row} for side in (found, truth))
    return 1 - 2 * len(ours & theirs) / (len(ours) + len(theirs))


RATE_MISTAKES = {
    "the error rates of the sentences are averaged: count links over all sentences "
    "first, and divide once": _mean_of_sentences,
    "the 2 is missing: shared links stand in both counts below": _of_sums(
        lambda s, f, t: 1 - s / (f + t)
    ),
    "this is the share that is right; the error rate is 1 minus it": _of_sums(
        lambda s, f, t: 2 * s / (f + t)
    ),
    "only the links found are counted below: that is 1 - precision, and one sure link "
    "would be perfect": _of_sums(lambda s, f, t: 1 - s / f),
    "only the true links are counted below: that is 1 - recall, and linking "
    "everything would be perfect": _of_sums(lambda s, f, t: 1 - s / t),
    "below stands the union, in which shared links count once: add the two "
    "sizes": _of_sums(lambda s, f, t: 1 - s / (f + t - s)),
    "with the union below the 2 is too much, and the sum is due: add the two "
    "sizes": _of_sums(lambda s, f, t: 1 - 2 * s / (f + t - s)),
    "a link that is given twice counts twice: make sets": _with_repeats,
    "the links below are counted with repeats: take the sizes of the sets": (
        _repeats_in_size
    ),
    "all sentences are put into one set: the same pair of places in two sentences are "
    "two links": _one_bag,
}
ALIGNMENTS = [
    ([[(0, 0), (1, 1)]], [((0, 0), (1, 2))]),
    (
        [[(0, 0), (1, 1), (1, 1), (2, 2)], [(0, 0), (3, 1)], [], [(1, 0), (0, 2)]],
        [
            ((0, 0), (1, 1), (2, 3), (3, 2), (4, 4)),
            ((0, 0),),
            ((2, 2), (1, 0)),
            ((0, 0), (1, 0), (2, 2)),
        ],
    ),
]


@check
def error_rate(function: Callable[[Links, Links], float]) -> Iterator[Finding]:
    """Exercise 12.2: `function(found, truth)` gives the alignment error rate."""
    answers = [_rate(attempt(function, *case)) for case in ALIGNMENTS]
    due = [_error_rate(*case) for case in ALIGNMENTS]
    close = [abs(a - d) < 1e-6 for a, d in zip(answers, due, strict=True)]
    if all(close):
        yield right("one of two links right, two true ones: 0.5")
        yield right("links are counted over all sentences, repeated ones once")
        return
    for name, version in RATE_MISTAKES.items():
        made = [version(*case) for case in ALIGNMENTS]
        if all(abs(a - m) < 1e-6 for a, m in zip(answers, made, strict=True)):
            raise Stop(wrong(name))
    if all(abs(a - 100 * d) < 1e-4 for a, d in zip(answers, due, strict=True)):
        raise Stop(wrong("give a share from 0 to 1, not percent"))
    i = close.index(False)
    found, truth = ALIGNMENTS[i]
    raise Stop(
        wrong(
            f"found {found} and true {truth}: you give {answers[i]:.3f}, due is "
            f"{due[i]:.3f}"
        )
    )


def _rate(output) -> float:
    if isinstance(output, Tensor) and output.numel() == 1:
        output = output.item()
    if isinstance(output, bool) or not isinstance(output, Real):
        raise Stop(wrong(f"return one number, not {output!r:.40}"))
    return float(output)


# ------------------------------------------------------------------ 12.3 switched off

D_MODEL, HEADS = 12, 3


def _module() -> MultiHeadAttention:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        module = MultiHeadAttention(D_MODEL, HEADS)
        for layer in module.children():  # also biases that are not zero
            nn.init.normal_(layer.bias)
    return module.eval()


SIZE = D_MODEL // HEADS
OWN = {"names": ("output:columns",), "part": lambda h: slice(h * SIZE, (h + 1) * SIZE)}
OFF_MISTAKES = {
    "rows of the output projection are zeroed: those are features of the result, which "
    "all heads share; the heads' contexts come in by columns, `weight[:, …]`": {
        "names": ("output",)
    },
    "the next head is gone: heads are counted from 0": {
        "part": lambda h: slice((h + 1) * SIZE, (h + 2) * SIZE)
    },
    "the head before is gone: heads are counted from 0": {
        "part": lambda h: slice((h - 1) % HEADS * SIZE, (h - 1) % HEADS * SIZE + SIZE)
    },
    "only one column is zeroed: a head owns d_head of them, from head·d_head on": {
        "part": lambda h: slice(h, h + 1)
    },
    "every n-th column is zeroed: a head's columns lie side by side": {
        "part": lambda h: slice(h, None, HEADS)
    },
    "all heads but this one are gone": {
        "part": lambda h: [c for c in range(D_MODEL) if c // SIZE != h]
    },
    "all heads are gone": {"part": lambda h: slice(None)},
    "its queries or its keys are zero: then all scores are equal, and the head looks "
    "everywhere instead of nowhere": {"names": ("query",)},
    "its values have zero weights but keep their bias, which still arrives": {
        "names": ("value:weight",)
    },
}


def _switched_off(head: int, **changes) -> MultiHeadAttention:
    """The module without this head, or with one of the mistakes above."""
    changes = OWN | changes
    module, part = _module(), changes["part"](head)
    with torch.no_grad():
        for name in changes["names"]:
            layer = getattr(module, f"{name.split(':')[0]}_projection")
            if name.endswith(":columns"):
                layer.weight[:, part] = 0
            else:
                layer.weight[part] = 0
                if not name.endswith(":weight"):
                    layer.bias[part] = 0
    return module


def _outputs(module: nn.Module) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    query = torch.randn(2, 4, D_MODEL, generator=generator)
    memory = torch.randn(2, 6, D_MODEL, generator=generator)
    with torch.no_grad():
        return module(query, memory, memory)


@check
def switched_off(
    function: Callable[[MultiHeadAttention, int], MultiHeadAttention],
) -> Iterator[Finding]:
    """Exercise 12.3: `function(module, head)` gives a copy without that head."""
    for head in (1, 0, 2):
        original = _module()
        before = {k: v.clone() for k, v in original.state_dict().items()}
        copy = attempt(function, original, head)
        if not isinstance(copy, nn.Module):
            raise Stop(
                wrong(f"return a MultiHeadAttention, not a {type(copy).__name__}")
            )
        after = original.state_dict()
        if any(not torch.equal(before[k], after[k]) for k in before):
            text = "the module that came in is changed; "
            if copy is original:
                raise Stop(wrong(text + "work on a copy: `copy.deepcopy(module)`"))
            raise Stop(wrong(text + "the copy shares its weights: use copy.deepcopy"))
        output, plain = _outputs(copy), _outputs(_module())
        expected = _outputs(_switched_off(head))
        if not same(output, expected):
            raise Stop(wrong(_off_fault(output, plain, head)))
        if head == 1:
            yield right("head 1 contributes nothing, the others do as before")
            yield right("the module that came in is unchanged")
    yield right("and so for head 0 and head 2")


def _off_fault(output: Tensor, plain: Tensor, head: int) -> str:
    if same(output, plain):
        return f"the output is that of all heads: head {head} still contributes"
    for name, changes in OFF_MISTAKES.items():
        if same(output, _outputs(_switched_off(head, **changes))):
            return name
    bias = _module().output_projection.bias
    if same(output + bias, _outputs(_switched_off(head))):
        return (
            "the bias of the output projection is zeroed too: it belongs to no head, "
            "so it stays"
        )
    return (
        f"without head {head} the output differs from what is due: set the head's "
        "columns of `output_projection.weight` to zero, and nothing else"
    )
