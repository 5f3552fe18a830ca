"""The exercises of lesson 11, decoding: reference answers and mistakes."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.attention import MultiHeadAttention
from helpers.caching import AttentionCache
from helpers.masks import causal_mask
from lessons.checking.comparing import plain, same
from lessons.checking.engine import Exercise, Part, Trial
from lessons.checking.findings import Stop, wrong
from lessons.checking.running import NOTHING, stopped, stub
from lessons.lesson11 import all_translations

# ------------------------------------------------------------ 11.1 greedy decoding


class Writer(nn.Module):
    """Logits that depend on all that was written; each row says EOS once, in time.

    The first token of its source says after how many tokens; before and after it says
    words only. So a row does the same alone or in any batch. It never says PAD or BOS,
    and refuses a target of no or of too many tokens.
    """

    longest = 60

    def __init__(self, vocabulary: int):
        super().__init__()
        self.vocabulary = vocabulary

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (batch, target_length, vocabulary). RuntimeError for such a target."""
        length = target.size(1)
        if not 0 < length <= self.longest:
            why = "the loop goes on" if length else "the first token to read is BOS"
            raise RuntimeError(f"a target of {length} tokens: {why}")
        places = torch.arange(1, length + 1)
        read = (target * (places + 1)).cumsum(dim=1) + 3 * source.sum(1, keepdim=True)
        words = torch.arange(self.vocabulary)
        logits = torch.sin(1.3 * read[..., None] + 2.1 * words * (1 + words))
        logits[..., EOS] = torch.where(places == source[:, :1], 9.0, -9.0)
        logits[..., [PAD, BOS]] = -torch.inf
        return logits


def _to_write(seed: int, ends: list[int], length: int, max_length: int) -> tuple:
    generator = torch.Generator().manual_seed(seed)
    source = torch.randint(4, 12, (len(ends), length), generator=generator)
    source[:, 0] = torch.tensor(ends)
    return Writer(12).eval(), source, max_length


def _without_empty_columns(
    output: Any, model: nn.Module, source: Tensor, max_length: int
) -> Any:
    """The ids, all with the same number of columns of PAD behind them."""
    ids = plain(output)
    rows = ids if isinstance(ids, tuple) else ()
    if rows and all(isinstance(x, Tensor) and x.dim() == 1 for x in rows):
        raise Stop(wrong("the rows differ in length: fill the shorter with PAD"))
    if not isinstance(ids, Tensor):
        return ids
    surplus = ids[:, max_length:] if ids.dim() == 2 else ids
    too_wide = ids.dim() == 2 and ids.size(1) > Writer.longest
    if ids.dim() != 2 or too_wide or (surplus.numel() and not surplus.any()):
        shape = tuple(ids.shape)
        raise Stop(wrong(f"return ids of shape (batch, ≤ max_length), not {shape}"))
    if ids.is_floating_point():
        raise Stop(wrong("the ids are floats: an id is a whole number, `torch.long`"))
    return F.pad(ids, (0, Writer.longest - ids.size(1)), value=PAD)


def _first_difference(value: Tensor, due: Tensor) -> str:
    """The first row that is wrong, and whether it is right as far as its EOS."""
    row = next(i for i in range(len(due)) if not same(value[i], due[i]))
    yours, theirs = ([*map(int, x[row])] for x in (value, due))
    end = theirs.index(EOS) + 1 if EOS in theirs else len(theirs)
    while yours and theirs and yours[-1] == theirs[-1] == PAD:
        yours, theirs = yours[:-1], theirs[:-1]
    goes_on = f" goes on after its EOS ({EOS}):" if yours[:end] == theirs[:end] else ""
    return f"row {row}{goes_on or ' is'} {yours}, due is {theirs}"


START = "source.new_full((len(source), 1), BOS)"
PICK = "model(source, tokens)[:, -1].argmax(dim=-1)"
FILL = "token = token.masked_fill(finished, PAD)"
NOTE, OVER = "finished = finished | (token == EOS)", "finished.all()"
JOIN = "tokens = torch.cat([tokens, token[:, None]], dim=1)"
greedy = Exercise(
    """\
def my_greedy(model, source, max_length):
    tokens = source.new_full((len(source), 1), BOS)
    finished = torch.zeros(len(source), dtype=torch.bool)
    for _ in range(max_length):
        token = model(source, tokens)[:, -1].argmax(dim=-1)
        token = token.masked_fill(finished, PAD)
        tokens = torch.cat([tokens, token[:, None]], dim=1)
        finished = finished | (token == EOS)
        if finished.all():
            break
    return tokens[:, 1:]
""",
    Part(
        "my_greedy",
        {
            "it starts from another token: before the first word the decoder reads "
            "BOS, as in training": [
                {START: START.replace("BOS", "PAD")},
                {START: START.replace("BOS", "EOS")},
                {START: "source[:, :1]"},
            ],
            "the logits of the first position are used: the next token comes from the "
            "last one, `logits[:, -1]`": {PICK: PICK.replace("-1]", "0]")},
            "the model reads the last token alone: it needs all tokens written so far, "
            "`model(source, tokens)`": {
                PICK: PICK.replace("tokens)", "tokens[:, -1:])")
            },
            "source and target are swapped: `model(source, tokens)`": {
                PICK: PICK.replace("source, tokens", "tokens, source")
            },
            "a row goes on after its EOS: keep note of the rows that have ended, and "
            "give them PAD": [
                {FILL: ""},
                {FILL: "", OVER: "False"},
                {FILL: "", NOTE: "finished = token == EOS"},
            ],
            "a row that has ended begins again after one PAD: `finished` must keep "
            "what it knew, `finished | (token == EOS)`": {
                NOTE: "finished = token == EOS"
            },
            "after its EOS a row is filled with EOS: the rest of the row is PAD": {
                FILL: FILL.replace("PAD", "EOS")
            },
            "EOS itself is replaced by PAD: note a new EOS after the row is filled, "
            "not before": {FILL: f"{NOTE}\n        {FILL}"},
            "it stops when one row has ended: the others have not, `finished.all()`": {
                OVER: "finished.any()"
            },
            "it stops when row 0 has ended: the others have not, `finished.all()`": {
                OVER: "finished[0]"
            },
            "one token too few: max_length counts the tokens that are written, and BOS "
            "is none of them": {"range(max_length)": "range(max_length - 1)"},
            "the loop takes as many steps as the source has tokens: take max_length": {
                "range(max_length)": "range(source.size(1))"
            },
            "one token too many: max_length counts the tokens that are written": {
                "range(max_length)": "range(max_length + 1)"
            },
            "BOS is still in front: return `tokens[:, 1:]`": {
                "return tokens[:, 1:]": "return tokens"
            },
            "the last token is cut off: cut off BOS in front, `tokens[:, 1:]`": {
                "return tokens[:, 1:]": "return tokens[:, 1:-1]"
            },
        },
        lambda seed: [
            _to_write(seed, [4, 3, 6, 6], 2, 12),
            _to_write(seed, [2, 9, 4], 7, 6),
            _to_write(seed, [9], 3, 2),
            _to_write(seed, [1, 1], 4, 3),
            _to_write(seed, [40, 50], 6, 45),
        ],
        praise=(
            "every token is the most probable one after those before it",
            "after its EOS a row holds PAD, and the others go on",
        ),
        others="a row that does not end is cut off at max_length",
        doubt="",
        measure=_without_empty_columns,
        describe=_first_difference,
    ),
    uses={"BOS": BOS, "EOS": EOS, "PAD": PAD},
)

# ------------------------------------------------------------ 11.2 a step with a cache


ON_ERROR = {
    "mat1 and mat2": "keys and values are projected already: call `attention.attend`, "
    "not `attention`, which projects them again",
    "mask of shape": "the newest token sees every key of the cache: no mask is due",
}


def _token_by_token(step: Callable) -> Callable:
    """The answer as a function of a sentence: outputs, and what the cache holds.

    The cache holds `known` tokens from the start. If it does, its rows move before the
    last token: the first one twice, and so on; the last ones are dropped.
    """

    def function(attention: MultiHeadAttention, x: Tensor, known: int) -> tuple:
        cache, outputs = AttentionCache(), []
        if known:
            with torch.no_grad():
                cache.extend(*attention.project(x[:, :known], x[:, :known]))
        for i in range(known, x.size(1)):
            if known and i == x.size(1) - 1:
                cache.select(torch.arange(len(x)) // 2)
            try:
                with torch.no_grad():
                    output = step(attention, x[:, i : i + 1], cache)
            except (RuntimeError, ValueError) as error:
                reasons = [why for says, why in ON_ERROR.items() if says in f"{error}"]
                if not reasons:
                    raise
                raise Stop(wrong(f"{reasons[0]} ({stopped(error)})")) from None
            if output is None or output is ...:
                if stub(step):
                    raise NotImplementedError
                raise Stop(wrong(NOTHING))
            output, due = plain(output), (len(x), 1, x.size(2))
            if not isinstance(output, Tensor) or output.shape != due:
                got = getattr(output, "shape", None)
                got = type(output).__name__ if got is None else tuple(got)
                text = f"step {i + 1} returns {got}, due is a tensor of shape {due}"
                raise Stop(wrong(f"{text}: what `attention.attend` gives"))
            outputs.append(output)
        return torch.cat(outputs, dim=1), cache.keys, cache.values

    return function


def _sentence(
    seed: int, *sizes: int, known: int = 0
) -> tuple[MultiHeadAttention, Tensor, int]:
    """An attention, the tokens of a batch (heads, d_head, batch, length), and known."""
    heads, d_head, batch, length = sizes
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        attention = MultiHeadAttention(heads * d_head, heads).double()
        for parameter in attention.parameters():
            nn.init.normal_(parameter, std=(heads * d_head) ** -0.5)
        x = torch.randn(batch, length, heads * d_head).double()
        return attention.eval(), x, known


def _what_differs(value: tuple, due: tuple) -> str:
    """Whether the outputs are wrong, and from which step on, or what is kept."""
    outputs, keys, _ = value
    if same(outputs, due[0]) and same(keys, due[2]):
        return "the outputs are right, but `cache.keys` holds the values"
    if same(outputs, due[0]):
        kept, wanted = getattr(keys, "shape", ()), tuple(due[1].shape)
        kept = tuple(kept) or type(keys).__name__
        text = f"the outputs are right, but `cache.keys` is {kept} at the end, due is "
        return f"{text}{wanted}, " + "the tokens' keys in their order"
    first = next(
        i
        for i in range(due[0].size(1))
        if not same(outputs[:, i : i + 1], due[0][:, i : i + 1])
    )
    return f"step {first + 1} is the first to differ from the full pass"


GROW, LOOK = (
    "keys, values = cache.extend(keys, values)",
    "attention.attend(x, keys, values)",
)
cached_step = Exercise(
    """\
def my_step(attention, x, cache):
    keys, values = attention.project(x, x)
    keys, values = cache.extend(keys, values)
    return attention.attend(x, keys, values)
""",
    Part(
        "my_step",
        {
            "the cache stays empty: `cache.extend` appends the new key and value": {
                GROW: ""
            },
            "the new token sees itself alone: attend to all keys that `cache.extend` "
            "returns": {GROW: "cache.extend(keys, values)"},
            "the new token does not see itself: extend the cache first, then attend": {
                GROW: "old = cache.keys, cache.values\n"
                "    cache.extend(keys, values)\n"
                "    if old[0] is not None:\n"
                "        keys, values = old"
            },
            "the cache holds the newest token alone: append to what it has, "
            "`cache.extend`": {GROW: "cache.keys, cache.values = keys, values"},
            "the cache keeps the first token alone: extend it at every step": {
                GROW: "keys, values = (cache.extend(keys, values) "
                "if cache.keys is None else (cache.keys, cache.values))"
            },
            "every token is in the cache twice: extend it once a step": {
                GROW: f"cache.extend(keys, values)\n    {GROW}"
            },
            "the cache holds the newest key in front: append it behind the old ones": {
                GROW: "if cache.keys is not None:\n"
                "        keys = torch.cat([keys, cache.keys], 2)\n"
                "        values = torch.cat([values, cache.values], 2)\n"
                "    cache.keys, cache.values = keys, values"
            },
            "keys and values are swapped: `attend(x, keys, values)`": {
                LOOK: "attention.attend(x, values, keys)"
            },
            "the keys serve as values, too: `attend(x, keys, values)`": {
                LOOK: "attention.attend(x, keys, keys)"
            },
            "x is added: return what `attention.attend` gives, without a residual": {
                LOOK: "x + attention.attend(x, keys, values)"
            },
            "the first row of the mask is used: the new token is the last row, which "
            "hides nothing": {
                LOOK: "attention.attend(x, keys, values, "
                "causal_mask(len(cache))[:, :, :1])"
            },
        },
        lambda seed: [
            _sentence(seed, 4, 3, 2, 5),
            _sentence(seed + 1, 2, 5, 3, 7),
            _sentence(seed + 2, 1, 4, 1, 1),
            _sentence(seed + 3, 3, 2, 1, 90 + seed % 7),
        ],
        praise=(
            "token by token gives what all at once give under a causal mask",
            "the cache holds the keys and values of all tokens, in order",
        ),
        trials=[
            Trial(
                _sentence(5, 2, 3, 3, 7, known=4),
                ["it goes on from a cache that is filled, and whose rows have moved"],
                "where the cache holds four tokens from the start, and `cache.select` "
                "moves its rows: ",
                "all that a step needs of old tokens is in `cache.keys` and "
                "`cache.values`: keep nothing elsewhere",
            )
        ],
        use=_token_by_token,
        describe=_what_differs,
    ),
    uses={"causal_mask": causal_mask},
)

# ------------------------------------------------------------ 11.3 beam search


LONGEST = 50  # more tokens than any trial asks for


@cache
def small_model(seed: int, vocabulary: int = 7) -> Callable[[Any], Tensor]:
    """next_scores of a small random model: it remembers what it has answered."""
    model, source = all_translations.small_model(seed, vocabulary)
    known = {}

    def next_scores(tokens: Any) -> Tensor:
        tokens = tuple(int(token) for token in tokens)
        if len(tokens) > LONGEST:
            text = f"{len(tokens)} tokens are given, more than max_length: does "
            raise RuntimeError(text + "`append` change a list that is used again?")
        if tokens not in known:
            with torch.no_grad():
                logits = model(source, torch.tensor([[BOS, *tokens]]))[0, -1]
            logits[[PAD, BOS]] = -torch.inf
            known[tokens] = logits.log_softmax(dim=0)
        return known[tokens].clone()

    return next_scores


@cache
def most_probable(seed: int, longest: int) -> list[int]:
    """The best of all sentences of at most `longest` tokens, each of them scored."""
    ask = small_model(seed)

    def score(tokens: list[int]) -> float:
        return sum(ask(tokens[:i])[x].item() for i, x in enumerate(tokens))

    return max(all_translations.all_sentences(longest), key=score)


FIVE = (10, 23, 33, 45, 53)  # seeds of models whose beams and greedy paths differ
MORE = (
    *FIVE,
    18,
    31,
    141,
    202,
    232,
    236,
    247,
    273,
    295,
    299,
)  # so that mistakes differ


def _for_each(search: Callable) -> Callable:
    """The answer as a function of several models: {number of the model: its answer}."""

    def function(models: tuple, beam_size: int, max_length: int) -> dict:
        found = {}
        for number, next_scores in enumerate(models, start=1):
            output = search(next_scores, beam_size, max_length)
            if output is None or output is ...:
                if stub(search):
                    raise NotImplementedError
                raise Stop(wrong(NOTHING))
            found[number] = output
        return found

    return function


def _first_wrong(value: dict, due: dict) -> str:
    number = next(n for n in due if not same(value[n], due[n]))
    yours, theirs = value[number], due[number].tolist()
    shown = yours.tolist() if isinstance(yours, Tensor) else yours
    if isinstance(shown, float) or not isinstance(shown, list):
        kind = "a single number" if isinstance(yours, Tensor) else type(yours).__name__
        kind = "several things" if isinstance(yours, tuple) else kind
        return f"return the list of ids of one hypothesis, not {kind}"
    return f"for small model {number} it returns {shown!s:.80}, due is {theirs}"


def _search(seeds: tuple, size: int, longest: int, *praise: str, **changes) -> Trial:
    vocabulary = changes.pop("vocabulary", 7)
    models = tuple(small_model(seed, vocabulary) for seed in seeds)
    before = f"with beam_size={size} and max_length={longest}: "
    return Trial((models, size, longest), praise, before, **changes)


def _is_best(value: dict, due: dict) -> bool:
    """Whether these are the best of all sentences, each of them scored."""
    best = {n: torch.tensor(most_probable(seed, 4)) for n, seed in enumerate(FIVE, 1)}
    return same(value, best)


KEEP = "candidates.append((tokens, total))"
CUT, BEST = "beam = candidates[:beam_size]", "return beam[0][0]"


def _aside(among: str, of: str = "ended + beam", stop: str = "False") -> dict:
    """A patch: what ends among some candidates is set aside; the beam stays full."""
    return {
        "beam = [([], 0.0)]": "ended, beam = [], [([], 0.0)]",
        CUT: f"ended += [c for c in {among} if c[0][-1] == EOS]\n"
        "        going = [c for c in candidates if c[0][-1] != EOS]\n"
        f"        beam = going[:beam_size]\n        if {stop}:\n            break",
        BEST: f"return max({of}, key=lambda c: c[1])[0]",
    }


ADD = "total + score"
beam = Exercise(
    """\
def my_beam(next_scores, beam_size, max_length):
    beam = [([], 0.0)]  # hypotheses: (tokens, log-probability), the best first
    for _ in range(max_length):
        candidates = []
        for tokens, total in beam:
            if tokens and tokens[-1] == EOS:
                candidates.append((tokens, total))
            else:
                for token, score in enumerate(next_scores(tokens).tolist()):
                    candidates.append(([*tokens, token], total + score))
        candidates.sort(key=lambda candidate: candidate[1], reverse=True)
        beam = candidates[:beam_size]
    return beam[0][0]
""",
    Part(
        "my_beam",
        {
            "a hypothesis goes on after its EOS: it stays as it is": {
                "tokens[-1] == EOS": "False"
            },
            "a hypothesis that ends is lost, or pays for another token at each step: "
            "it stays among the candidates, with the sum that it has": [
                {
                    KEEP: "pass",
                    "return beam[0][0]": "return beam[0][0] if beam else [EOS]",
                },
                {
                    KEEP: "candidates.append((tokens, total + "
                    "next_scores(tokens)[EOS].item()))"
                },
            ],
            "it returns a sentence that the beam drops: only the beam_size best "
            "candidates of a step stay, ended or not": _aside("candidates"),
            "hypotheses that have ended are set aside: here they keep their places in "
            "the beam, until better ones push them out": [
                _aside("candidates[:beam_size]"),
                _aside("candidates[:beam_size]", stop="len(ended) >= beam_size"),
                {
                    "beam = [([], 0.0)]": "ended, beam = [], [([], 0.0)]",
                    CUT: "best = candidates[: beam_size - len(ended)]\n"
                    "        ended += [c for c in best if c[0][-1] == EOS]\n"
                    "        beam = [c for c in best if c[0][-1] != EOS]",
                    BEST: "return max(ended + beam, key=lambda c: c[1])[0]",
                },
            ],
            "an ended hypothesis is preferred: take max_length steps, then the largest "
            "sum counts, ended or not": [
                _aside("candidates[:beam_size]", of="ended or beam"),
                {
                    CUT: f"{CUT}\n        if ended := [c for c in beam if c[0][-1] == "
                    "EOS]:\n            return ended[0][0]"
                },
                {
                    BEST: "return next((c[0] for c in beam if c[0][-1] == EOS), "
                    "beam[0][0])"
                },
            ],
            "sums are divided by the number of tokens: the largest sum counts, as it "
            "stands": [
                {"candidate[1], reverse": "candidate[1] / len(candidate[0]), reverse"},
                {
                    "return beam[0][0]": "return max(beam, "
                    "key=lambda c: c[1] / len(c[0]))[0]"
                },
            ],
            "the beam is wider than beam_size": [
                {"[:beam_size]": "[: beam_size + 1]"},
                {"[:beam_size]": "[: 2 * beam_size]"},
                {"[:beam_size]": "[: 3 * beam_size]"},
            ],
            "each first token is continued greedily: rank the continuations of all "
            "hypotheses together, at every step": {
                "beam = candidates[:beam_size]": "first = {}\n        for c in "
                "candidates:\n            first.setdefault(c[0][0], c)\n"
                "        beam = [*first.values()][:beam_size]",
            },
            "`next_scores` is asked with BOS in front: it takes the tokens without": {
                "next_scores(tokens)": "next_scores([BOS, *tokens])"
            },
            "the ids go on with PAD after EOS: the list ends with EOS": {
                "return beam[0][0]": "return beam[0][0] + [0] * (max_length - "
                "len(beam[0][0]))"
            },
            "the beam is never larger than the vocabulary: beam_size may exceed it": {
                "candidates[:beam_size]": "candidates[: min(beam_size, "
                "len(next_scores([])))]"
            },
            "EOS is ruled out as the first token: a sentence may end at once": {
                ADD: "total + score if tokens or token != EOS else -math.inf"
            },
            "the worst candidates are kept: sort from the largest sum down": {
                "reverse=True": "reverse=False"
            },
            "candidates are ranked by their last token alone: add its log-probability "
            "to the sum of those before": {ADD: "score"},
            "probabilities are added up: add log-probabilities, as they stand": {
                ADD: "total + math.exp(score)"
            },
            "one hypothesis alone is followed, as in greedy decoding: extend each of "
            "the beam, and keep the beam_size best of all candidates": {
                "candidates[:beam_size]": "candidates[:1]"
            },
            "the last of the beam is returned: the best stands in front": {
                "return beam[0][0]": "return beam[-1][0]"
            },
            "one token too few: max_length counts the tokens, EOS included": {
                "range(max_length)": "range(max_length - 1)"
            },
            "one token too many: max_length counts the tokens, EOS included": {
                "range(max_length)": "range(max_length + 1)"
            },
            "EOS is cut off: return it with the rest": {
                "return beam[0][0]": "return [x for x in beam[0][0] if x != EOS]"
            },
            "BOS stands in front: it is no token of the translation": {
                "return beam[0][0]": "return [BOS, *beam[0][0]]"
            },
        },
        trials=[
            _search(MORE, 3, 8),
            _search((4, 30, 85), 6, 12),
            _search((8, 202, 273), 12, 5),
            _search(FIVE, 2, 8),
            _search(FIVE, 4, 8, "beams of 2, 3 and 4 find what they should"),
            _search(FIVE, 1, 8, "a beam of 1 is greedy decoding"),
            _search(
                FIVE,
                341,
                4,
                "a beam of 341 finds the best of all 341 sentences of up to 4 tokens, "
                "in five small models",
                accepts=_is_best,
            ),
            _search((7,), 3, 40, vocabulary=9),
            _search((6, 7), 30, 5, vocabulary=12),
            _search((8,), 30, 1, "other lengths and vocabularies work, too"),
        ],
        use=_for_each,
        describe=_first_wrong,
        at_once=1,
    ),
    uses={"BOS": BOS, "EOS": EOS},
)
