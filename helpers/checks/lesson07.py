"""Checks for the exercises of lesson 07, the decoder."""

from collections.abc import Callable, Iterator
from functools import cache, partial

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from helpers import BOS, EOS, PAD
from helpers.attention import MultiHeadAttention
from helpers.caching import AttentionCache
from helpers.checks.core import (
    Finding,
    Stop,
    attempt,
    check,
    right,
    same,
    untried,
    weights_beside,
    wrong,
)
from helpers.decoder import DecoderLayer
from helpers.layers import LayerSizes
from helpers.masks import causal_mask, padding_mask
from helpers.plots import heatmap
from helpers.probes import influence

# -- 07.1: what is read and what is to be said -----------------------------------------

# Short and long rows; a batch without any padding; one whose longest row ends in it.
BATCHES = [
    torch.tensor([[7, 8, 9], [5, PAD, PAD], [6, 4, PAD]]),
    torch.tensor([[5, 6], [8, 4]]),
    torch.tensor([[9, 8, 7, PAD], [4, PAD, PAD, PAD]]),
]


def _before(words: Tensor, token: int) -> Tensor:
    return torch.nn.functional.pad(words, (1, 0), value=token)


def _behind(words: Tensor, token: int) -> Tensor:
    return torch.nn.functional.pad(words, (0, 1), value=token)


def _ended(words: Tensor) -> Tensor:
    """<eos> right after the last word of each row."""
    longer = _behind(words, PAD)
    lengths = (words != PAD).sum(1, keepdim=True)
    return longer.scatter(1, lengths, EOS)


def _shift(words: Tensor) -> tuple[Tensor, Tensor]:
    return _before(words, BOS), _ended(words)


def _whole(words: Tensor) -> Tensor:
    return _before(_ended(words), BOS)


LATE_EOS = (
    "in a short sentence EOS stands behind the padding: it belongs right after the "
    "last word, at the place `(words != PAD).sum(dim=1)` of its row"
)
SHIFT_MISTAKES = {
    "the two are swapped: return what is read first": lambda words: (
        _ended(words),
        _before(words, BOS),
    ),
    LATE_EOS: lambda words: (_before(words, BOS), _behind(words, EOS)),
    "EOS is missing: a writer that never learns to say it never stops": lambda words: (
        _before(words, BOS),
        _behind(words, PAD),
    ),
    "every place of padding says EOS; one is enough, and the loss would count all": (
        lambda words: (
            _before(words, BOS),
            _behind(words, PAD).masked_fill(_behind(words, PAD) == PAD, EOS),
        )
    ),
    "both begin with BOS, so nothing is shifted: it would say what it reads": (
        lambda words: (_before(words, BOS), _before(words, BOS))
    ),
    "both end in EOS, so nothing is shifted: it would say what it reads": (
        lambda words: (_ended(words), _ended(words))
    ),
    "both are the whole row from BOS to EOS, so nothing is shifted: it would say what "
    "it reads": lambda words: (_whole(words), _whole(words)),
    "BOS is missing in what is read, so the first word is never practised: put it in "
    "front": lambda words: (_behind(words, PAD), _ended(words)),
    "what is read still ends in EOS, and is longer than what is said": lambda words: (
        _whole(words),
        _ended(words),
    ),
    "what is to be said still begins with BOS": lambda words: (
        _before(words, BOS),
        _whole(words),
    ),
    "the last word of the longest sentence is cut off: `[:, :-1]` and `[:, 1:]` are "
    "for rows that hold BOS and EOS already": lambda words: (
        _before(words, BOS)[:, :-1],
        _ended(words)[:, :-1],
    ),
    "these are the words without their first and their last: `[:, :-1]` and `[:, 1:]` "
    "are for rows that hold BOS and EOS already": lambda words: (
        words[:, :-1],
        words[:, 1:],
    ),
    "BOS and EOS stand on the wrong sides": lambda words: (
        _before(words, EOS),
        _behind(words, BOS),
    ),
}


@check
def shift(function: Callable[[Tensor], tuple[Tensor, Tensor]]) -> Iterator[Finding]:
    """Exercise 07.1: `function(words)` returns what is read and what is to be said."""
    _demand_shift(function, BATCHES[0])
    yield right("what is read: <bos>, then the words")
    yield right("what is to be said: the words, then <eos> right after the last one")
    for words in BATCHES[1:]:
        try:
            _demand_shift(function, words)
        except Stop as stop:
            text = f"with words = {words.tolist()} it goes wrong: {stop.finding.text}"
            raise Stop(wrong(text)) from None
    yield right("other batches work too")


def _demand_shift(function, words: Tensor) -> None:
    output = attempt(function, words)
    output = tuple(output) if isinstance(output, list) else output
    pair = output if isinstance(output, tuple) else (output,)
    if len(pair) != 2 or not all(isinstance(part, Tensor) for part in pair):
        kinds = ", ".join(type(part).__name__ for part in pair)
        raise Stop(wrong(f"return two tensors, read and say, not: {kinds}"))
    expected = _shift(words)
    for mistake in (_shift, *SHIFT_MISTAKES.values()):
        # What is read where nothing is to be said does no harm: EOS may stand there.
        if same(_harmless(pair), _harmless(mistake(words))):
            break
    else:
        raise Stop(wrong(_describe(pair, expected)))
    if mistake is not _shift:
        name = next(n for n, known in SHIFT_MISTAKES.items() if known is mistake)
        raise Stop(wrong(name))
    if any(part.is_floating_point() for part in pair):
        raise Stop(
            wrong("ids are integers: build on `words`, or pass dtype=torch.long")
        )


def _harmless(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    read, say = pair
    if read.shape == say.shape:
        read = read.masked_fill((say == PAD) & (read == EOS), PAD)
    return read, say


def _describe(pair, expected) -> str:
    for name, part, due in zip(("read", "say"), pair, expected, strict=True):
        if part.shape != due.shape:
            return (
                f"{name} has the shape {tuple(part.shape)}, due is {tuple(due.shape)}: "
                "the words and one token more"
            )
    for name, part, due in zip(("read", "say"), pair, expected, strict=True):
        rows = (part != due).any(dim=1).nonzero().flatten().tolist()
        if rows:
            row = rows[0]
            return f"{name}: row {row} is {part[row].tolist()}, due {due[row].tolist()}"
    return "the two do not hold the ids that are due"


# -- 07.2: one step with a cache -------------------------------------------------------

STEPS = 5


def _attention(seed: int) -> MultiHeadAttention:
    """Random weights and biases, without touching the learner's random numbers."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        attention = MultiHeadAttention(16, 4)
        for parameter in attention.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
    return attention.requires_grad_(False)


def _only_itself(attention, x, cache):
    cache.extend(*attention.project(x, x))
    return attention(x, x, x)


def _the_first(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys[:, :, :1], values[:, :, :1])


def _the_past(attention, x, cache):
    keys, values = cache.keys, cache.values
    all_keys, all_values = cache.extend(*attention.project(x, x))
    if keys is None:
        keys, values = all_keys, all_values
    return attention.attend(x, keys, values)


def _swapped(attention, x, cache):
    keys, values = cache.extend(*attention.project(x, x))
    return attention.attend(x, values, keys)


def _keys_alone(attention, x, cache):
    keys, _ = cache.extend(*attention.project(x, x))
    return attention.attend(x, keys, keys)


EXTEND = "`keys, values = cache.extend(keys, values)` gives all of them"
# Each: a wrong step, and what is said of it by the number of keys left in the cache;
# None stands for any other number.
STEP_MISTAKES = [
    (
        _only_itself,
        {
            0: "the new token sees itself alone, and nothing is ever put in the cache: "
            + EXTEND,
            1: "the new token sees itself alone, because every step writes over what "
            f"the cache held; {EXTEND}",
            None: "the new token sees itself alone: the cache grows, but what it holds "
            f"is not used; {EXTEND}",
        },
    ),
    (
        _the_first,
        {
            1: "the cache is filled once and then left as it is: that is right for the "
            "memory, but here every token brings a key of its own; extend it always",
            None: "every token sees the first one alone: a new token needs no mask, or "
            "the last row of it, and all keys of the cache",
        },
    ),
    (
        _the_past,
        {
            None: "the new token does not see itself: extend the cache first, then "
            "attend to all it holds"
        },
    ),
    (_swapped, {None: "keys and values are swapped: `attend(x, keys, values)`"}),
    (
        _keys_alone,
        {None: "the keys serve as values too: `attend(x, keys, values)`"},
    ),
]


@check
def cached_step(function: Callable, *, seed: int = 0) -> Iterator[Finding]:
    """Exercise 07.2: `function(attention, x, cache)` for one token after another."""
    attention = _attention(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, STEPS, 16, generator=generator)
    expected = attention(x, x, x, causal_mask(STEPS))
    output, cache = _run_steps(function, attention, x)
    if not same(output, expected):
        raise Stop(wrong(_step_fault(output, cache, attention, x, expected)))
    yield right(f"{STEPS} tokens one by one give what all at once give")
    yield _cache_finding(cache, attention, x)
    other = torch.randn(3, 4, 16, generator=generator)
    _demand_second_sentence(function, attention, other)
    yield right("a second sentence, with a fresh cache, does too")


def _demand_second_sentence(function, attention, x) -> None:
    why = ""
    try:
        output, _ = _run_steps(function, attention, x)
        if same(output, attention(x, x, x, causal_mask(x.size(1)))):
            return
    except Stop as stop:
        why = f" ({stop.finding.text})"
    text = "a second sentence with a fresh cache goes wrong: does something of the "
    text += f"first remain elsewhere, or is a size written as a number?{why}"
    raise Stop(wrong(text))


def _run_steps(function, attention, x) -> tuple[Tensor, AttentionCache]:
    """The outputs of all steps (batch, length, d_model), and the cache they leave."""
    cache, outputs = AttentionCache(), []
    for i in range(x.size(1)):
        grown = len(cache)
        try:
            output = attempt(function, attention, x[:, i : i + 1], cache)
        except Stop as stop:
            raise Stop(
                _stopped(stop.finding, i, cache, _length(cache) > grown)
            ) from None
        due = (len(x), 1, x.size(2))
        if not isinstance(output, Tensor) or output.shape != due:
            is_tensor = isinstance(output, Tensor)
            got = tuple(output.shape) if is_tensor else type(output).__name__
            text = f"step {i + 1} returns {got}, due is a tensor of shape {due}: "
            raise Stop(wrong(text + "what `attention.attend` returns"))
        outputs.append(output)
    return torch.cat(outputs, dim=1), cache


def _stopped(finding: Finding, step: int, cache, has_grown: bool) -> Finding:
    """A step that raised or returned nothing, said with what is known of it."""
    if isinstance(cache.keys, Tensor) and cache.keys.dim() == 3:
        text = "what is put in the cache is the token itself: keys and values come from"
        return wrong(f"{text} `attention.project(x, x)` ({finding.text})")
    if finding.mark == "✗" and "mat1 and mat2" in finding.text:
        text = "keys and values are projected already: call `attention.attend(…)`, not "
        return wrong(f"{text}`attention(…)`, which would do it again ({finding.text})")
    if finding.mark == "○" and has_grown:
        return wrong("the cache grows, but the step returns nothing: `return` is due")
    if finding.mark == "✗" and "mask of shape" in finding.text:
        text = "a new token needs no mask: all keys in the cache lie in its past"
        return wrong(f"{text} ({finding.text})")
    if finding.mark == "✗" and step == 0 and "NoneType" in finding.text:
        text = "before the first step the cache holds None: extend it before use"
        return wrong(f"{text} ({finding.text})")
    return finding


def _step_fault(output, cache, attention, x, expected) -> str:
    for mistake, names in STEP_MISTAKES:
        if same(output, _run_steps(mistake, attention, x)[0]):
            return names.get(_length(cache), names[None])
    if _length(cache) > STEPS:
        return (
            f"the cache holds {_length(cache)} keys after {STEPS} tokens: `extend` "
            "keeps the old ones by itself, so hand it the new one alone, once a step"
        )
    steps = [i for i in range(STEPS) if not same(output[:, i], expected[:, i])]
    known = "the first step is right, but " if steps[0] else ""
    return (
        f"{known}step {steps[0] + 1} differs from the full pass: project the new "
        "token, extend the cache, attend from the new token to all that it holds"
    )


def _length(cache) -> int:
    try:
        return len(cache)
    except Exception:  # the learner may have put anything in there
        return -1


def _cache_finding(cache: AttentionCache, attention, x) -> Finding:
    """Whether the cache holds what the next step will need."""
    keys, values = attention.project(x, x)
    if same(cache.keys, keys) and same(cache.values, values):
        return right(f"the cache holds {STEPS} keys and values, in order")
    if _length(cache) == 2 * STEPS:
        return wrong(
            "every token is in the cache twice: the outputs stay right, as each key "
            "has its double, but the cache is twice as large; extend it once a step"
        )
    if _length(cache) != STEPS:
        return wrong(
            f"the outputs are right, but the cache holds {_length(cache)} keys after "
            f"{STEPS} tokens: keep them in the cache and nowhere else"
        )
    return wrong(
        "the outputs are right, but the cache does not hold the keys and values in the "
        "order of the tokens: new ones go to the end, where a mask expects them"
    )


# -- 07.3: the mask of several new tokens ----------------------------------------------


def _continued(cached: int, new: int) -> Tensor:
    return causal_mask(cached + new)[:, :, cached:]


def _diagonal(cached: int, new: int, diagonal: int) -> Tensor:
    ones = torch.ones(1, 1, new, cached + new, dtype=torch.bool)
    return ones.tril(diagonal=cached + diagonal)


MASK_MISTAKES = {
    "these are the first rows of the causal mask, those of the cached tokens: the new "
    "tokens come last, take the last rows": lambda cached, new: causal_mask(
        cached + new
    )[:, :, :new],
    "nothing is hidden: the new tokens see each other's future": lambda cached, new: (
        torch.ones(1, 1, new, cached + new, dtype=torch.bool)
    ),
    "it has a column for each new token only: the cached keys need columns too, in "
    "front of them": lambda cached, new: causal_mask(new),
    "it has rows for the cached tokens: only the new ones ask": lambda cached, new: (
        causal_mask(cached + new)
    ),
    "it is turned round, True = may attend": lambda cached, new: (
        ~_continued(cached, new)
    ),
    "a new token does not see itself: its own key is not in its future": (
        lambda cached, new: _diagonal(cached, new, -1)
    ),
    "each new token sees one token ahead: shift the diagonal by one": (
        lambda cached, new: _diagonal(cached, new, 1)
    ),
    "the cached keys are hidden: all of them lie in the past": lambda cached, new: (
        _continued(cached, new) & (torch.arange(cached + new) >= cached)
    ),
    "the new tokens see the cache alone, not themselves and each other": (
        lambda cached, new: (torch.arange(cached + new) < cached).expand(1, 1, new, -1)
    ),
    "the columns of the new tokens stand in front: their keys come at the end": (
        lambda cached, new: _continued(cached, new).roll(new, dims=-1)
    ),
    "its last two axes are swapped: a row for each new token, a column for each key": (
        lambda cached, new: _continued(cached, new).transpose(-2, -1)
    ),
    "the two new axes are missing: (1, 1, new, cached + new), by `[None, None]`": (
        lambda cached, new: _continued(cached, new)[0, 0]
    ),
    "an axis is missing: (1, 1, new, cached + new) broadcasts over batch and heads": (
        lambda cached, new: _continued(cached, new)[0]
    ),
}


@check
def continued_mask(function: Callable[[int, int], Tensor]) -> Iterator[Finding]:
    """Exercise 07.3: `function(cached, new)`, boolean (1, 1, new, cached + new)."""
    for cached, new, says in (
        (3, 4, "3 in the cache, 4 new: a triangle behind a full block"),
        (0, 4, "an empty cache: the causal mask itself"),
        (5, 1, "1 new: it sees everything"),
    ):
        _demand_mask(function, cached, new)
        yield right(says)


def _demand_mask(function, cached: int, new: int) -> None:
    output, expected = attempt(function, cached, new), _continued(cached, new)
    where = f"cached={cached}, new={new}: "
    if not isinstance(output, Tensor):
        raise Stop(wrong(f"{where}return a tensor, not a {type(output).__name__}"))
    # Values are judged before the type, so that both faults of a float mask are named.
    seen = output.bool()
    typed = ""
    if output.dtype != torch.bool:
        typed = f"a mask must be boolean, not {output.dtype}"
    if same(seen.int(), expected.int()):
        if not typed:
            return
        raise Stop(wrong(f"{where}the right cells, but {typed}"))
    named = [
        name
        for name, mistake in MASK_MISTAKES.items()
        if same(seen.int(), mistake(cached, new).int())
    ]
    if output.shape != expected.shape:
        named.append(f"the shape is {tuple(output.shape)}, not {tuple(expected.shape)}")
    name = "; and ".join(filter(None, [[*named, "compare the pictures"][0], typed]))
    draw = None
    if output.shape == expected.shape:
        draw = partial(weights_beside, seen[0, 0].float(), expected[0, 0].float())
    raise Stop(wrong(where + name, draw))


# -- 07.4: four patients ---------------------------------------------------------------

FAULTS = {
    1: "nothing is wrong",
    2: "the causal mask of the self-attention is missing",
    3: "the padding mask of the memory is missing",
    4: "the padding mask of the memory is on the self-attention",
    5: "the causal mask is on the cross-attention as well",
    6: "the cross-attention reads the target instead of the memory",
}
# What the two pictures of each would be: target, source.
LOOKS = {
    1: ("a whole lower triangle and nothing above it", "three full columns"),
    2: ("a full square", "three full columns"),
    3: ("a whole lower triangle and nothing above it", "six full columns"),
    4: (
        "a triangle with nothing but the diagonal in its last three columns",
        "six full columns",
    ),
    5: ("a whole lower triangle and nothing above it", "three columns cut by a stair"),
    6: ("a triangle and three full columns, up above the diagonal", "empty"),
}
PATIENTS = {"A": 5, "B": 4, "C": 1, "D": 6}
TARGET = ["<bos>", "les", "chats", "dorment", "bien", "."]
SOURCE = ["cats", "sleep", "well", "<pad>", "<pad>", "<pad>"]


@cache
def reach(fault: int) -> tuple[Tensor, Tensor]:
    """Influence of target and source on the outputs of a decoder with this fault."""
    sizes = LayerSizes(d_model=16, n_heads=4, d_ff=32, dropout=0.0, norm_first=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(fault)
        layer = DecoderLayer(sizes).eval()
        x, memory = torch.randn(2, 1, 6, 16)
    tokens = torch.tensor([[int(word != "<pad>") for word in SOURCE]])
    mask, memory_mask = causal_mask(6), padding_mask(tokens)
    if fault == 2:
        mask = None
    elif fault == 3:
        memory_mask = None
    elif fault == 4:
        mask, memory_mask = mask & memory_mask, None
    elif fault == 5:
        memory_mask = mask & memory_mask

    def decode(x: Tensor, memory: Tensor) -> Tensor:
        return layer(x, x if fault == 6 else memory, mask, memory_mask)

    return (
        influence(lambda x: decode(x, memory), x),
        influence(lambda memory: decode(x, memory) + 0 * memory.sum(), memory),
    )


def draw_patients() -> None:
    """The Jacobians of patients A to D: the target above, the source below.

    Where nothing passes, the cell says 0.
    """
    figure, axes = plt.subplots(2, 4, figsize=(9, 5.2), sharex="row", sharey=True)
    for column, (letter, fault) in enumerate(PATIENTS.items()):
        sides = zip(("target", "source"), reach(fault), (TARGET, SOURCE), strict=True)
        for row, (side, found, tokens) in enumerate(sides):
            ax = axes[row, column]
            options = {"highest": _highest(found), "colour_bar": False}
            options["numbers"] = lambda strength: "" if strength else "0"
            heatmap(found, TARGET, tokens, title=f"{letter}: {side}", ax=ax, **options)
            ax.set(xlabel="", ylabel="")
            ax.tick_params(labelsize=8)
    figure.supxlabel("token that is read", fontsize=10)
    figure.supylabel("output at", fontsize=10)
    figure.suptitle("Which of these four decoders is ill, and of what?")
    plt.show()


def _highest(found: Tensor) -> float:
    """The end of the colour scale: the diagonal, where it is bright, may be cut off."""
    beside = found.masked_fill(torch.eye(len(found), dtype=torch.bool), 0.0)
    return beside.max().item() or 1.0


@check
def diagnoses(answers: dict[str, int]) -> Iterator[Finding]:
    """Exercise 07.4: the number of each patient's fault."""
    if not isinstance(answers, dict):
        kind = type(answers).__name__
        raise Stop(wrong(f"hand over the dictionary with A to D, not a {kind}"))
    for letter, fault in PATIENTS.items():
        answer = answers.get(letter)
        if answer is None or answer is Ellipsis:
            yield untried(f"{letter}: not attempted yet")
        elif isinstance(answer, bool) or not isinstance(answer, int):
            yield wrong(f"{letter}: a number from 1 to 6 is due, not {answer!r:.40}")
        elif answer not in FAULTS:
            yield wrong(f"{letter}: a number from 1 to 6 is due, not {answer}")
        elif answer == fault:
            yield right(f"{letter}: {FAULTS[fault]}")
        else:
            yield wrong(f"{letter} is not {answer}: {_contradiction(answer, fault)}")


def _contradiction(answer: int, fault: int) -> str:
    """What the picture would be if the answer were true, and is not."""
    pairs = zip(("target", "source"), LOOKS[answer], LOOKS[fault], strict=True)
    side, would, _ = next(pair for pair in pairs if pair[1] != pair[2])
    return f"then the {side}'s picture would be {would}; look at it again"
