"""Checks for the exercises of lesson 11, decoding."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from numbers import Real

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD, UNK
from helpers.checks.core import (
    Finding,
    Mistake,
    Stop,
    attempt,
    check,
    recognise,
    right,
    same,
    untried,
    wrong,
)
from helpers.transformer import Transformer, TransformerConfig

# ------------------------------------------------------------ 11.1 greedy decoding


class Writer(Transformer):
    """A small random model that ends at many lengths and never says PAD or BOS.

    It refuses a target longer than `longest`, so that no loop goes on for ever.
    """

    longest = 40

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """Transformer's; RuntimeError for a target of no or of too many tokens."""
        if target.size(-1) > self.longest:
            raise RuntimeError(
                f"a target of {target.size(-1)} tokens: the loop went on after "
                "max_length tokens, or a step appends more than one"
            )
        if target.size(-1) == 0:
            raise RuntimeError("an empty target: the first token to read is BOS")
        return super().decode(target, memory, source)

    def project(self, states: Tensor) -> Tensor:
        """Transformer's logits, with those of PAD and BOS at -inf."""
        logits = super().project(states)
        never = torch.tensor([PAD, BOS], device=logits.device)
        return logits.index_fill(-1, never, -torch.inf)


def _writer(seed: int) -> Writer:
    config = TransformerConfig(
        12,
        12,
        d_model=16,
        n_heads=2,
        d_ff=32,
        n_layers=1,
        dropout=0.0,
        share_embeddings=False,
        max_length=64,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Writer(config)
        nn.init.normal_(model.projection.weight)  # sure enough of each token
    return model.eval().requires_grad_(False)


def _sources(rows: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, 12, (rows, 5), generator=generator)


GREEDY = {
    "start": lambda source: source.new_full((len(source), 1), BOS),
    "ask": lambda model, source, tokens: model(source, tokens),
    "pick": lambda logits: logits[:, -1].argmax(-1),
    "note": lambda finished, token: finished | (token == EOS),
    # `before`, `after`: which rows have ended without this token, and with it
    "fill": lambda token, before, after: token.masked_fill(before, PAD),
    "over": lambda finished: finished.all(),
    "steps": lambda max_length: max_length,
    "give": lambda tokens: tokens[:, 1:],
}


def _greedy(model, source, max_length, **steps) -> Tensor:
    """The exercise's function, with some of its steps done in another way."""
    steps = GREEDY | steps
    tokens = steps["start"](source)
    finished = source.new_zeros(source.size(0), dtype=torch.bool)
    for _ in range(steps["steps"](max_length)):
        token = steps["pick"](steps["ask"](model, source, tokens))
        ended = steps["note"](finished, token)
        token = steps["fill"](token, finished, ended)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        finished = ended
        if steps["over"](finished):
            break
    return steps["give"](tokens)


FIRST = "before the first word the decoder reads BOS, as in training"
GREEDY_MISTAKES = [
    Mistake(
        f"it starts from {name}",
        FIRST,
        {"start": lambda source, i=i: torch.full_like(source[:, :1], i)},
    )
    for name, i in (("PAD", PAD), ("EOS", EOS), ("UNK", UNK))
] + [
    Mistake(
        "it starts from the first token of the source",
        FIRST,
        {"start": lambda source: source[:, :1]},
    ),
    Mistake(
        "the logits of the first position are used",
        "they predict the second token only, whatever was written since; the next "
        "token comes from the last position, `logits[:, -1]`",
        {"pick": lambda logits: logits[:, 0].argmax(-1)},
    ),
    Mistake(
        "the argmax runs along the wrong axis",
        "it finds a position or a sentence, not a word; the vocabulary is the last "
        "axis: `logits[:, -1].argmax(dim=-1)`",
        {"pick": lambda logits: logits.argmax(1)[:, -1]},
    ),
    Mistake(
        "the least probable token is taken",
        "argmax, not argmin",
        {"pick": lambda logits: logits[:, -1].nan_to_num(neginf=99.0).argmin(-1)},
    ),
    Mistake(
        "the model is shown the last token alone",
        "without caches it needs all tokens written so far: `model(source, tokens)`",
        {"ask": lambda model, source, tokens: model(source, tokens[:, -1:])},
    ),
    Mistake(
        "source and target are swapped",
        "`model(source, tokens)`",
        {"ask": lambda model, source, tokens: model(tokens, source)},
    ),
    Mistake(
        "a sentence goes on after its EOS",
        "from then on its row gets PAD; keep note of which rows have finished",
        {"fill": lambda token, before, after: token},
    ),
    Mistake(
        "a sentence that has ended begins again after one PAD",
        "a row stays finished: keep what `finished` knew, `finished |= token == EOS`",
        {"note": lambda finished, token: (token == EOS) & ~finished},
    ),
    Mistake(
        "after its EOS a row is filled with EOS",
        "the rest of the row is PAD: the sentence ends once",
        {"fill": lambda token, before, after: token.masked_fill(before, EOS)},
    ),
    Mistake(
        "EOS itself is replaced by PAD",
        "fill with PAD only from the token after EOS: update `finished` after that",
        {"fill": lambda token, before, after: token.masked_fill(after, PAD)},
    ),
    Mistake(
        "it stops as soon as one sentence has ended",
        "the others are not finished: `finished.all()`, not `any()`",
        {"over": lambda finished: finished.any()},
    ),
    Mistake(
        "the rows go on to max_length although all sentences end before",
        "stop when every row has its EOS: what follows is padding only",
        {"over": lambda finished: False},
    ),
    Mistake(
        "one token too few",
        "max_length counts the tokens that are written, and BOS is none of them",
        {"steps": lambda max_length: max_length - 1},
    ),
    Mistake(
        "one token too many",
        "max_length counts the tokens that are written",
        {"steps": lambda max_length: max_length + 1},
    ),
    Mistake(
        "BOS is still in front",
        "it was the start, not a word of the translation: return `tokens[:, 1:]`",
        {"give": lambda tokens: tokens},
    ),
    Mistake(
        "the last token is cut off",
        "cut off BOS in front, `tokens[:, 1:]`, and nothing behind",
        {"give": lambda tokens: tokens[:, 1:-1]},
    ),
]

# Found by trying: with this model some rows end early, some late, and one of the second
# batch not within its max_length.
WRITER_SEED = 128
CASES = [(4, 1, 12), (3, 3, 4)]  # rows, seed of the sources, max_length


@check
def greedy(function: Callable[..., Tensor]) -> Iterator[Finding]:
    """Exercise 11.1: `function(model, source, max_length)` returns ids."""
    model = _writer(WRITER_SEED)
    for place, (rows, seed, max_length) in enumerate(CASES):
        inputs = model, _sources(rows, seed), max_length
        output = _ids(function, inputs)
        if not same(output, _ids(function, inputs)):
            text = "two calls differ: something is drawn at random; take the argmax"
            raise Stop(wrong(text))
        expected = _greedy(*inputs)
        if not same(output, expected):
            raise Stop(wrong(_greedy_fault(output, expected, inputs)))
        if place == 0:
            yield right("every token is the most probable one after those before it")
            yield right("after its EOS a row holds PAD, and all rows end together")
    yield right("a sentence that does not end is cut off at max_length")


def _ids(function, inputs) -> Tensor:
    output = attempt(function, *inputs)
    if isinstance(output, list) and output and isinstance(output[0], list):
        if len({*map(len, output)}) > 1:
            raise Stop(wrong("the rows differ in length: fill them with PAD"))
        output = torch.tensor(output)
    if not isinstance(output, Tensor) or output.dim() != 2:
        got = (
            tuple(output.shape) if isinstance(output, Tensor) else type(output).__name__
        )
        raise Stop(wrong(f"return a tensor of ids (batch, ≤ max_length), not {got}"))
    if output.is_floating_point():
        raise Stop(wrong("ids are integers: start from `source.new_full(…, BOS)`"))
    return output


def _greedy_fault(output: Tensor, expected: Tensor, inputs) -> str:
    if made := recognise(output, _greedy, GREEDY_MISTAKES, inputs):
        return "; and ".join(f"{mistake.name}: {mistake.hint}" for mistake in made)
    if len(output) != len(expected):
        return f"{len(output)} rows of ids for {len(expected)} sentences"
    yours, due = output.tolist(), expected.tolist()
    row = next(row for row in range(len(due)) if yours[row] != due[row])
    return f"row {row} is {yours[row]}, due is {due[row]}"


# ------------------------------------------------------------ 11.2 length penalty

SHORT, LONG = (4, -3.0), (10, -4.2)  # tokens with EOS, log-probability


def _penalised(hypothesis, strength: float) -> float:
    length, total = hypothesis
    return total / ((5 + length) / 6) ** strength


def _slips(hypothesis) -> dict[float, str]:
    """Wrong values of the score at 0.6, and how one comes by them."""
    length, total = hypothesis
    penalty = ((5 + length) / 6) ** 0.6
    return {
        total
        * penalty: "divide by the penalty: multiplying punishes the long one more",
        total / length: "that is the mean per token; the penalty is ((5 + n) / 6)^α",
        total / length**0.6: "5 is added to the length, and the sum divided by 6",
        total / ((5 + length) / 6): "that is α = 1: raise the quotient to the power α",
        total / (0.6 * (5 + length) / 6): "α is a power, not a factor",
        total / (5 + length) ** 0.6: "divide 5 + n by 6 before you take the power",
        total / (5 + length**0.6) * 6: "the power is taken of (5 + n) / 6, not of n",
        _penalised((length - 1, total), 0.6): "EOS is a token too: count it",
        _penalised((length + 1, total), 0.6): "the length counts EOS already",
        total: "this is the score without a penalty, α = 0",
        -_penalised(hypothesis, 0.6): "a log-probability stays negative",
        penalty: "this is the penalty; divide the log-probability by it",
    }


@check
def length_penalty(**answers) -> Iterator[Finding]:
    """Exercise 11.2: score_short and score_long at α = 0.6, and where they tie."""
    for name, hypothesis in (("score_short", SHORT), ("score_long", LONG)):
        due = _penalised(hypothesis, 0.6)
        yield _number(name, answers.get(name), due, _slips(hypothesis))
    ratio = LONG[1] / SHORT[1]
    tie = math.log(ratio) / math.log((5 + LONG[0]) / (5 + SHORT[0]))
    slips = {
        math.log(ratio) / math.log(LONG[0] / SHORT[0]): "5 is added to both lengths",
        math.log(1 / ratio)
        / math.log((5 + LONG[0]) / (5 + SHORT[0])): "the sign: α is positive here",
        ratio * (5 + SHORT[0]) / (5 + LONG[0]): "α is a power: take logarithms",
        1 / tie: "the quotient is upside down",
        ratio: "this is the ratio of the log-probabilities, which (15/9)^α must equal",
        1.0: "at 1 the long one is ahead already",
        0.6: "at 0.6 the short one is still ahead: compare your two scores",
    }
    yield _number("tie", answers.get("tie"), tie, slips)


def _number(name: str, answer, due: float, slips: dict[float, str]) -> Finding:
    if answer is None or answer is Ellipsis:
        return untried(f"{name}: not attempted yet")
    if isinstance(answer, Tensor) and answer.numel() == 1:
        answer = answer.item()
    if isinstance(answer, bool) or not isinstance(answer, Real):
        return wrong(f"{name}: a number is due, not {answer!r:.40}")
    if abs(answer - due) < 0.006:
        return right(f"{name} = {answer:.2f}")
    for value, hint in slips.items():
        if abs(answer - value) < 0.006:
            return wrong(f"{name} = {answer:.2f}: {hint}")
    return wrong(f"{name} = {answer:.2f} is not it: put the numbers into the formula")


# -------------------------------------------------------- 11.3 matches of n-grams


def _grams(tokens, n: int) -> list[tuple]:
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def _matches(hypothesis, reference, n: int) -> tuple[int, int]:
    ours, theirs = (Counter(_grams(side, n)) for side in (hypothesis, reference))
    return sum((ours & theirs).values()), sum(ours.values())


def _unclipped(hypothesis, reference, n):
    ours, theirs = _grams(hypothesis, n), _grams(reference, n)
    return sum(gram in theirs for gram in ours), len(ours)


def _clipped_as_a_whole(hypothesis, reference, n):
    matched, total = _unclipped(hypothesis, reference, n)
    return min(matched, len(_grams(reference, n))), total


def _distinct(hypothesis, reference, n):
    ours, theirs = set(_grams(hypothesis, n)), set(_grams(reference, n))
    return len(ours & theirs), len(ours)


def _distinct_of_all(hypothesis, reference, n):
    return _distinct(hypothesis, reference, n)[0], len(_grams(hypothesis, n))


def _recall(hypothesis, reference, n):
    return _matches(reference, hypothesis, n)


def _in_place(hypothesis, reference, n):
    ours, theirs = _grams(hypothesis, n), _grams(reference, n)
    return sum(map(tuple.__eq__, ours, theirs)), len(ours)


def _one_too_few(hypothesis, reference, n):
    return _matches(hypothesis[:-1], reference[:-1], n)


def _single_words(hypothesis, reference, n):
    return _matches(hypothesis, reference, 1)


def _of_words(hypothesis, reference, n):
    return _matches(hypothesis, reference, n)[0], len(hypothesis)


def _pieces(hypothesis, reference, n):
    sides = [
        Counter(tuple(side[i : i + n]) for i in range(0, len(side) - n + 1, n))
        for side in (hypothesis, reference)
    ]
    return sum((sides[0] & sides[1]).values()), sum(sides[0].values())


MATCH_MISTAKES = {
    "a run counts more often than the reference has it: clip, that is count each at "
    "most as often as it occurs in the reference": _unclipped,
    "the sum of all matches is clipped: clip each run by its own count in the "
    "reference": _clipped_as_a_whole,
    "repeated runs of the hypothesis count once only: a set forgets how often; add up "
    "the counts of a Counter": _distinct,
    "a run that stands twice in both counts once: a set forgets how often; add up the "
    "counts of a Counter": _distinct_of_all,
    "the total is that of the reference: precision asks how much of what was written "
    "is right, so count the hypothesis": _recall,
    "runs are compared place by place: one may match wherever it stands": _in_place,
    "the last run is missing: there are len(tokens) - n + 1 of them": _one_too_few,
    "single words are counted whatever n is": _single_words,
    "the total counts words, not runs of n words": _of_words,
    "runs overlap: the next begins one word later, not n words later": _pieces,
}
PAIRS = [
    ("le le chat dort dort dort", "le chat dort ici"),
    ("le chat et le chat noir", "le chat voit le chat et le chien"),
    ("elle ne voit pas le chat noir", "elle ne voit pas le chat de la voisine"),
    ("oui", "oui oui oui"),
]


@check
def ngram_matches(function: Callable[..., tuple[int, int]]) -> Iterator[Finding]:
    """Exercise 11.3: `function(hypothesis, reference, n)` gives (matched, total)."""
    answers = {}
    for hypothesis, reference in PAIRS:
        for n in (1, 2, 3):
            output = attempt(function, hypothesis.split(), reference.split(), n)
            inputs = hypothesis.split(), reference.split(), n
            answers[hypothesis, reference, n] = inputs, _pair(output)
    given = [pair for _, pair in answers.values()]
    due = [_matches(*inputs) for inputs, _ in answers.values()]
    if given == due:
        yield right("runs of one, two and three words are counted and clipped")
        yield right("a sentence shorter than n has none: (0, 0)")
        return
    for name, version in MATCH_MISTAKES.items():
        if given == [version(*inputs) for inputs, _ in answers.values()]:
            raise Stop(wrong(name))
    if given == [pair[::-1] for pair in due]:
        raise Stop(wrong("swapped: the matches come first, then the total"))
    texts, yours, expected = next(
        case for case in zip(answers, given, due, strict=True) if case[1] != case[2]
    )
    raise Stop(
        wrong(
            f"“{texts[0]}” against “{texts[1]}”, n = {texts[2]}: {yours}, due is "
            f"{expected}"
        )
    )


def _pair(output) -> tuple[int, int]:
    if hasattr(output, "tolist"):  # a tensor or an array
        output = output.tolist()
    if isinstance(output, Real) and not isinstance(output, bool):
        raise Stop(wrong("return two counts, matched and total, not one number"))
    pair = tuple(output) if isinstance(output, tuple | list) else ()
    if len(pair) != 2 or not all(isinstance(part, Real) for part in pair):
        raise Stop(wrong(f"return two counts, matched and total, not {output!r:.40}"))
    return pair
