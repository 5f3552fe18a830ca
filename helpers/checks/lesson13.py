"""Checks for the exercises of lesson 13, real data."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from numbers import Real

import torch
from torch import Tensor

from helpers.checks.core import Finding, Stop, attempt, check, right, untried, wrong

# ------------------------------------------------------------- 13.1 cut by the merges

Merges = Sequence[tuple[str, str]]
MERGES = [("n", "d"), ("u", "nd"), ("▁", "H"), ("▁H", "und"), ("▁Hund", "e")]
OTHER_MERGES = [
    ("s", "s"),
    ("u", "n"),
    ("e", "r"),
    ("n", "d"),
    ("t", "e"),
    ("u", "nd"),
]
# What each probe is there for, and what comes out.
WORDS = [
    ("▁Hunde", MERGES, "a word that all the merges make"),
    ("▁Mund", MERGES, "a new word"),
    ("▁Rad", MERGES, "a word without any of the pairs"),
    ("▁Hundehunde", MERGES, "a pair that stands there twice"),
    ("▁ter", OTHER_MERGES, "two pairs that share a letter"),
    ("▁rund", OTHER_MERGES, "a pair whose letter is already part of another"),
    ("▁psst", OTHER_MERGES, "a double letter"),
    ("▁psssst", OTHER_MERGES, "a letter four times in a row"),
    ("▁pssst", OTHER_MERGES, "a letter three times in a row"),
]


def cut(word: str, merges: Merges) -> list[str]:
    """The word in pieces: the merges, in the order in which they were learnt."""
    pieces = list(word)
    for pair in merges:
        pieces = join(pieces, pair)
    return pieces


def join(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    """The pieces with each neighbouring `pair` joined, from left to right."""
    joined: list[str] = []
    for piece in pieces:
        if joined and (joined[-1], piece) == pair:
            joined[-1] += piece
        else:
            joined.append(piece)
    return joined


def _join_from_the_right(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    turned = join(
        [piece[::-1] for piece in pieces[::-1]], tuple(p[::-1] for p in pair[::-1])
    )
    return [piece[::-1] for piece in turned[::-1]]


def _cut_reversed(word, merges):
    return cut(word, merges[::-1])


def _cut_once(word, merges):
    pieces = list(word)
    for pair in merges:
        for i, found in enumerate(pairwise(pieces)):
            if found == pair:
                pieces[i : i + 2] = ["".join(pair)]
                break
    return pieces


def _cut_after_one(word, merges):
    return join(list(word), merges[0])


def _cut_longest(word, merges):
    known, pieces, start = {"".join(pair) for pair in merges}, [], 0
    while start < len(word):
        ends = range(len(word), start + 1, -1)
        end = next((end for end in ends if word[start:end] in known), start + 1)
        pieces.append(word[start:end])
        start = end
    return pieces


def _cut_leftmost(word, merges):
    pieces = list(word)
    while place := [i for i, pair in enumerate(pairwise(pieces)) if pair in merges]:
        pieces[place[0] : place[0] + 2] = ["".join(pieces[place[0] : place[0] + 2])]
    return pieces


def _cut_by_replace(word, merges):
    text = " ".join(word)
    for left, right_part in merges:
        text = text.replace(f"{left} {right_part}", left + right_part)
    return text.split(" ")


def _cut_by_sum(word, merges):
    pieces = list(word)
    for pair in merges:
        for piece in [pieces.pop(0) for _ in range(len(pieces))]:
            if pieces and pieces[-1] + piece == "".join(pair):
                pieces[-1] += piece
            else:
                pieces.append(piece)
    return pieces


def _cut_from_the_right(word, merges):
    pieces = list(word)
    for pair in merges:
        pieces = _join_from_the_right(pieces, pair)
    return pieces


IN_ORDER = "go through `merges` once, from the first to the last"
CUT_MISTAKES = [
    (_cut_reversed, f"the merges are applied in reverse order: {IN_ORDER}"),
    (
        _cut_after_one,
        "only the first merge is applied: is there a `return` inside the loop?",
    ),
    (
        _cut_once,
        "each merge is applied in one place only: join the pair wherever it stands in "
        "the word",
    ),
    (
        _cut_longest,
        "the longest known piece is taken from the left, whatever the order of the "
        f"merges: {IN_ORDER}, and “▁ter” keeps its “er”, learnt before “te”",
    ),
    (
        _cut_leftmost,
        "the leftmost pair is joined first, whatever the order of the merges: "
        f"{IN_ORDER}",
    ),
    (
        _cut_by_replace,
        "pieces are joined inside a text with spaces, and `replace` also finds “n d” "
        "in “un d”: compare whole pieces, such as `(pieces[i], pieces[i + 1]) == pair`",
    ),
    (
        _cut_by_sum,
        "two pieces are joined if *together* they make the text of a merge, and “un” "
        "with “d” is taken for “u” with “nd”: compare each with its half of the pair",
    ),
    (
        _cut_from_the_right,
        "pairs that overlap are joined from the right: of “sss” the first two become "
        "one piece",
    ),
    (
        lambda word, merges: ["".join(pair) for pair in merges],
        "the merges are returned, joined: cut the *word* by them",
    ),
    (
        lambda word, merges: list(word),
        "the word is still in single letters: is the result of joining kept?",
    ),
]


@check
def cut_by_merges(function: Callable) -> Iterator[Finding]:
    """Check `cut_word(word, merges)`, which returns the word's pieces in a list."""
    given = {}
    for word, merges, _ in WORDS:
        output = attempt(function, word, list(merges))
        if not isinstance(output, list | tuple) or not all(
            isinstance(piece, str) for piece in output
        ):
            kind = type(output).__name__
            yield wrong(f"return the pieces in a list, ['▁H', 'und'] for one: {kind}")
            return
        given[word] = list(output)
    if all(given[word] == cut(word, merges) for word, merges, _ in WORDS):
        yield right("the pieces together are the word, for nine words")
        yield right(
            "each merge is applied wherever its pair stands, in the right order"
        )
        return
    for mistake, hint in CUT_MISTAKES:
        if all(given[word] == mistake(word, merges) for word, merges, _ in WORDS):
            yield wrong(hint)
            return
    for word, merges, what in WORDS:
        pieces, expected = given[word], cut(word, merges)
        if pieces != expected:
            lost = " (letters are lost or doubled)" if "".join(pieces) != word else ""
            yield wrong(
                f"{what}: “{word}” becomes {pieces}{lost}, expected {expected} by the "
                f"merges {' '.join(map('+'.join, merges))}"
            )
            return


# ----------------------------------------------------------------- 13.2 a scaled step


def scaled_step(
    gradients: list[Tensor], scale: float, streak: int, patience: int, **steps
):
    """Exercise 13.2's function, some of its STEPS done in another way."""
    steps = STEPS | steps
    if steps["overflow"](gradients):
        return steps["after overflow"](gradients, scale, streak)
    true = steps["unscale"](
        gradients, scale, 2 * scale if streak + 1 == patience else scale
    )
    return true, *steps["grow"](scale, streak + 1, patience)


def _grow(scale, streak, patience):
    return (2 * scale, 0) if streak == patience else (scale, streak)


def _overflow(gradients):
    return not all(gradient.isfinite().all() for gradient in gradients)


STEPS = {
    "overflow": _overflow,
    "after overflow": lambda gradients, scale, streak: (None, scale / 2, 0),
    "unscale": lambda gradients, scale, new: [g / scale for g in gradients],
    "grow": _grow,
}


@dataclass(frozen=True)
class Fault:
    """A wrong way to do one of the steps."""

    step: str
    does: object  # mostly a function
    says: str


def _recognised(faults: Iterable[Fault], fits: Callable[..., bool]) -> str | None:
    """What the one or two faults say with whose steps the answer `fits`, if any do."""
    faults = list(faults)
    for count in (1, 2):
        for made in combinations(faults, count):
            steps = {fault.step: fault.does for fault in made}
            if len(steps) == count and fits(**steps):
                return "; and ".join(fault.says for fault in made)
    return None


STEP_FAULTS = [
    Fault(
        "overflow",
        lambda gradients: any(g.isinf().any() for g in gradients),
        "NaN passes: ∞ - ∞ on the way back gives NaN, so ask for `isfinite`",
    ),
    Fault(
        "overflow",
        lambda gradients: any(g.isnan().any() for g in gradients),
        "∞ passes: a number above 65,504 becomes ∞ in fp16, so ask for `isfinite`",
    ),
    Fault(
        "overflow",
        lambda gradients: not gradients[0].isfinite().all(),
        "only the first gradient is looked at: one bad number in any of them is enough",
    ),
    Fault(
        "overflow",
        lambda gradients: not gradients[-1].isfinite().all(),
        "only the last gradient is looked at: one bad number in any of them is enough",
    ),
    Fault(
        "overflow",
        lambda gradients: not any(g.isfinite().any() for g in gradients),
        "the step is left out only if *all* numbers are bad: one is enough",
    ),
    Fault(
        "overflow",
        lambda gradients: False,
        "an overflow goes unnoticed: Adam would carry NaN or ∞ into every weight",
    ),
    Fault(
        "after overflow",
        lambda gradients, scale, streak: (None, scale, 0),
        "after an overflow the scale stays: halve it, or the next step overflows too",
    ),
    Fault(
        "after overflow",
        lambda gradients, scale, streak: (None, 2 * scale, 0),
        "after an overflow the scale is doubled: it was too large, so halve it",
    ),
    Fault(
        "after overflow",
        lambda gradients, scale, streak: (None, scale / 2, streak),
        "after an overflow the streak goes on: it counts good steps *in a row*",
    ),
    Fault(
        "after overflow",
        lambda gradients, scale, streak: (None, scale / 2, streak + 1),
        "an overflow counts as a good step: the streak begins anew, at 0",
    ),
    Fault(
        "after overflow",
        lambda gradients, scale, streak: (
            [torch.zeros_like(g) for g in gradients],
            scale / 2,
            0,
        ),
        "after an overflow the gradients are zeros, and Adam would step all the same, "
        "by its running means: return None, no step",
    ),
    Fault(
        "after overflow",
        lambda gradients, scale, streak: (
            [g.nan_to_num(0.0, 0.0, 0.0) / scale for g in gradients],
            scale / 2,
            0,
        ),
        "after an overflow the bad numbers are replaced and the rest is used: return "
        "None, no step",
    ),
    Fault(
        "unscale",
        lambda gradients, scale, new: gradients,
        "the gradients are still scaled: divide them by the scale",
    ),
    Fault(
        "unscale",
        lambda gradients, scale, new: [g * scale for g in gradients],
        "the gradients are scaled up once more: divide them by the scale",
    ),
    Fault(
        "unscale",
        lambda gradients, scale, new: [g / new for g in gradients],
        "the gradients are divided by the doubled scale: they were taken with the old "
        "one, so divide before it grows",
    ),
    Fault(
        "grow",
        lambda scale, streak, patience: (scale, streak),
        "the scale does not grow: count this step first, and if the streak is then as "
        "long as `patience`, double the scale and begin the streak anew",
    ),
    Fault(
        "grow",
        lambda scale, streak, patience: (2 * scale, 0),
        "the scale doubles after every good step: wait for `patience` of them",
    ),
    Fault(
        "grow",
        lambda scale, streak, patience: (
            (2 * scale, streak) if streak >= patience else (scale, streak)
        ),
        "after doubling, the streak goes on, and the scale would double at every "
        "further step: begin anew at 0",
    ),
    Fault(
        "grow",
        lambda scale, streak, patience: (
            (scale / 2, 0) if streak == patience else (scale, streak)
        ),
        "after good steps the scale is halved: it may grow, so double it",
    ),
    Fault(
        "grow",
        lambda scale, streak, patience: (
            (2 * scale, 0) if streak == patience else (scale, streak - 1)
        ),
        "a good step is not counted: the streak grows by 1",
    ),
]


def _gradients(*bad: tuple[int, float]) -> list[Tensor]:
    gradients = [
        torch.tensor([3.0, -6.0]),
        torch.tensor([[0.5, 12.0, 1e-3]]),
        torch.ones(2),
    ]
    for i, number in bad:
        gradients[i].view(-1)[1] = number
    return gradients


CASES = [  # what happens, and the function's arguments
    ("a good step", (_gradients(), 1024.0, 0, 3)),
    ("a second good step", (_gradients(), 1024.0, 1, 3)),
    ("the third good step of three", (_gradients(), 1024.0, 2, 3)),
    ("∞ in the second gradient", (_gradients((1, math.inf)), 4096.0, 2, 5)),
    ("-∞ in the first", (_gradients((0, -math.inf)), 1.0, 1, 5)),
    ("NaN in the last", (_gradients((2, math.nan)), 8.0, 4, 5)),
    ("NaN and ∞", (_gradients((0, math.nan), (1, math.inf)), 8.0, 0, 5)),
    ("nothing but NaN", ([torch.full((2,), math.nan)] * 3, 8.0, 0, 5)),
]


def _alike(yours, expected) -> bool:
    """Whether two results agree: gradients up to rounding, scale and streak exactly."""
    if not (isinstance(yours, tuple | list) and len(yours) == 3):
        return False
    gradients, *numbers = yours
    if [*numbers] != [*expected[1:]]:
        return False
    if gradients is None or expected[0] is None:
        return gradients is expected[0]
    return len(gradients) == len(expected[0]) and all(
        isinstance(mine, Tensor)
        and mine.shape == theirs.shape
        and torch.allclose(mine, theirs, rtol=1e-5, atol=0, equal_nan=True)
        for mine, theirs in zip(gradients, expected[0], strict=True)
    )


@check
def loss_scale(function: Callable) -> Iterator[Finding]:
    """Check `scaled_step(gradients, scale, streak, patience)` of exercise 13.2."""
    outputs = []
    for _, (gradients, *numbers) in CASES:
        kept = [gradient.clone() for gradient in gradients]
        output = attempt(function, kept, *numbers)
        if not (isinstance(output, tuple | list) and len(output) == 3):
            yield wrong(
                "return three things: the gradients or None, the scale, the streak"
            )
            return
        # Dividing what came in, in place, is how PyTorch's own scaler does it.
        outputs.append(tuple(output))

    def fits(**steps):
        return all(
            _alike(output, scaled_step(*arguments, **steps))
            for output, (_, arguments) in zip(outputs, CASES, strict=True)
        )

    if fits():
        yield right("a good step gives the true gradients and lengthens the streak")
        yield right("the scale doubles after `patience` good steps in a row")
        yield right("∞ or NaN in any gradient: no step, half the scale, a new streak")
        return
    if hint := _recognised(STEP_FAULTS, fits):
        raise Stop(wrong(hint))
    for output, (what, arguments) in zip(outputs, CASES, strict=True):
        wanted = scaled_step(*arguments)
        if not _alike(output, wanted):
            before = "scale {:g}, streak {}, patience {}".format(*arguments[1:])
            yield wrong(
                f"{what} ({before}) gives {_told(output)}, expected {_told(wanted)}"
            )
            return


def _told(output) -> str:
    gradients, scale, streak = output
    if gradients is None:
        return f"(None, {scale}, {streak})"
    numbers = [g.flatten().tolist() if isinstance(g, Tensor) else g for g in gradients]
    first = numbers[0] if numbers else []
    return f"(gradients that begin with {first}, {scale}, {streak})"


# ------------------------------------------------------------------------ 13.3 chrF


def chrf(hypothesis: str, reference: str, **steps) -> float:
    """sacreBLEU's chrF of one sentence, some of its CHRF_STEPS done in another way."""
    steps = CHRF_STEPS | steps
    precisions, recalls = [], []
    for n in steps["orders"]:
        said, wanted = (
            Counter(steps["runs"](steps["letters"](text), n))
            for text in (hypothesis, reference)
        )
        if not said or not wanted:
            no_precision, no_recall = steps["too long"](said, wanted)
            precisions += no_precision
            recalls += no_recall
            continue
        found = steps["found"](said, wanted)
        precisions.append(found / said.total())
        recalls.append(found / wanted.total())
    if not precisions or not recalls:
        return 0.0
    return steps["score"](precisions, recalls)


def _f_score(precision: float, recall: float, beta: float = 2) -> float:
    below = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / below if below else 0.0


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


CHRF_STEPS = {
    "orders": range(1, 7),
    "letters": lambda text: "".join(text.split()),
    "runs": lambda text, n: [text[i : i + n] for i in range(len(text) - n + 1)],
    "too long": lambda said, wanted: ([], []),
    "found": lambda said, wanted: (said & wanted).total(),
    "score": lambda p, r: 100 * _f_score(_mean(p), _mean(r)),
}
CHRF_FAULTS = [
    Fault("letters", lambda text: text, "spaces are counted: take them out first"),
    Fault(
        "letters",
        lambda text: "".join(text.lower().split()),
        "the texts are lower-cased: chrF, like BLEU, tells A from a",
    ),
    Fault(
        "letters",
        lambda text: tuple(text.split()),
        "runs of words are counted: take runs of letters",
    ),
    Fault(
        "orders",
        range(1, 6),
        "runs of six letters are left out: `range(1, 7)`",
    ),
    Fault("orders", range(1, 5), "n runs from 1 to 6, not to 4 as in BLEU"),
    Fault("orders", [6], "only runs of six letters count: average over n from 1 to 6"),
    Fault("orders", [1], "only single letters count: average over n from 1 to 6"),
    Fault(
        "found",
        lambda said, wanted: sum(n for run, n in said.items() if run in wanted),
        "a run counts as often as it is said: no more often than the reference has it "
        "(`said & wanted` of two Counters)",
    ),
    Fault(
        "found",
        lambda said, wanted: len(said.keys() & wanted.keys()),
        "each kind of run counts once: count every time it stands there, up to the "
        "reference's number",
    ),
    Fault(
        "runs",
        lambda text, n: [text[i : i + n] for i in range(len(text) - n)],
        "the last run is left out: a text of m letters has m - n + 1 runs of n",
    ),
    Fault(
        "runs",
        lambda text, n: {text[i : i + n] for i in range(len(text) - n + 1)},
        "a run that stands there twice is counted once: use a Counter, not a set",
    ),
    Fault(
        "too long",
        lambda said, wanted: ([0.0], [0.0]),
        "a length that is too long for one of the texts counts as 0: leave it out of "
        "both averages",
    ),
    Fault(
        "too long",
        lambda said, wanted: ([0.0] if said else [], [0.0] if wanted else []),
        "a length that is too long for one of the texts is left out for that text "
        "only: leave it out of both averages",
    ),
    Fault(
        "score",
        lambda p, r: 100 * _f_score(_mean(r), _mean(p)),
        "precision counts double in place of recall: β² stands beside the precision "
        "in the denominator (or are the two texts swapped?)",
    ),
    Fault(
        "score",
        lambda p, r: 100 * _f_score(_mean(p), _mean(r), 1),
        "precision and recall weigh the same: β is 2",
    ),
    Fault(
        "score",
        lambda p, r: 100 * _f_score(_mean(p), _mean(r), math.sqrt(2)),
        "β is not squared: with β = 2 the formula has 4",
    ),
    Fault("score", lambda p, r: 100 * _mean(p), "that is the precision alone"),
    Fault("score", lambda p, r: 100 * _mean(r), "that is the recall alone"),
    Fault(
        "score",
        lambda p, r: 100 * (_mean(p) + _mean(r)) / 2,
        "that is the plain mean of precision and recall",
    ),
    Fault(
        "score",
        lambda p, r: 100 * _mean([_f_score(*pair) for pair in zip(p, r, strict=True)]),
        "an F-score is taken for each n, and then the mean: average precision and "
        "recall first",
    ),
    Fault(
        "score",
        lambda p, r: _f_score(_mean(p), _mean(r)),
        "the score runs from 0 to 1: multiply by 100",
    ),
]
SENTENCES = [  # hypothesis, reference
    ("A dog runs on the green grass.", "A dog runs across the green meadow."),
    ("Two men are talking.", "two Men are talking to each other in a bar."),
    ("A man in a red red red shirt reads a book.", "A man reads a red book."),
    ("A girl is jumping.", "A girl is jumping."),
    ("yes", "yes no"),
    ("two dogs", "two"),
    ("abc", "xyz"),
    ("", "A girl."),
]


@check
def letters_score(function: Callable) -> Iterator[Finding]:
    """Check `chrf(hypothesis, reference)`, a score from 0 to 100."""
    outputs = []
    for hypothesis, reference in SENTENCES:
        output = attempt(function, hypothesis, reference)
        if isinstance(output, Tensor) and output.numel() == 1:
            output = output.item()
        if isinstance(output, bool) or not isinstance(output, Real):
            raise Stop(wrong(f"return one number, not a {type(output).__name__}"))
        outputs.append(output)

    def fits(**steps):
        return all(
            math.isclose(output, chrf(*pair, **steps), rel_tol=1e-4, abs_tol=1e-3)
            for output, pair in zip(outputs, SENTENCES, strict=True)
        )

    if fits():
        yield right("sacreBLEU's chrF, for eight pairs of sentences")
        yield right("short and empty sentences too")
        return
    if not any(outputs):
        raise Stop(untried("every score is 0: not attempted yet?"))
    if hint := _recognised(CHRF_FAULTS, fits):
        raise Stop(wrong(hint))
    for output, pair in zip(outputs, SENTENCES, strict=True):
        if not math.isclose(output, chrf(*pair), rel_tol=1e-4, abs_tol=1e-3):
            yield wrong(
                f"“{pair[0]}” for “{pair[1]}”: {output:.2f}, expected {chrf(*pair):.2f}"
            )
            return
