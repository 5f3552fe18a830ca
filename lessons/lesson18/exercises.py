"""The exercises of lesson 18: a language model, its loss, and how it writes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.caching import AttentionCache
from helpers.exercise import Exercise, Outcome, Probe, Wrong
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from lessons.lesson18 import writing

# ------------------------------------------------------------------ 18.1 the model

# vocabulary, d_model, heads, heads of keys, d_ff, layers, places, base
SMALL = LanguageModelConfig(19, 16, 4, 2, 24, 2, 32, 50.0)
OTHER = LanguageModelConfig(23, 24, 2, 1, 20, 3, 16)


def _reads(
    config: LanguageModelConfig, batch: int, length: int, *, before: int = 0, **said
) -> Probe:
    """Tokens for a model of these sizes, of which some are in its caches."""
    chance = torch.Generator().manual_seed(length + before)
    tokens = torch.randint(4, config.vocab_size, (batch, length), generator=chance)
    d_head = config.d_model // config.n_heads
    shape = batch, config.n_kv_heads, before, d_head
    caches = [
        AttentionCache(*(torch.randn(shape, generator=chance) for _ in range(2)))
        for _ in range(config.n_layers)
    ]
    given = (tokens, caches) if before else (tokens,)
    return Probe(*given, build=lambda made: made(config), **said)


def _starts_badly(model: nn.Module) -> str:
    """What is wrong with the size of the initial weights; "" for nothing."""
    for name, weight in model.named_parameters():
        spread = weight.std().item()
        if weight.dim() == 2 and not 0.015 < spread < 0.025:
            return (
                f"`{name}` starts with a standard deviation of {spread:.2g}, not 0.02: "
                "`nn.init.normal_(…, std=0.02)` for each parameter of two axes"
            )
        if weight.dim() == 1 and not (weight == 1).all():
            return f"`{name}` starts as RMSNorm has it: all 1"
    return ""


class _Wrong(LanguageModel):
    """The model, and with other attributes what is wrong with it."""

    last_norm, causal, goes_on, turns, scale = True, True, True, True, False

    def forward(self, tokens: Tensor, caches: list | None = None) -> Tensor:
        start = len(caches[0]) if caches else 0
        places = torch.arange(start, start + tokens.size(1))
        mask = torch.arange(start + tokens.size(1)) <= places[:, None]
        angles = self.angles[places - (not self.goes_on) * start] * self.turns
        x = self.embedding(tokens) * self.config.d_model ** (self.scale / 2)
        for block, cache in zip(self.blocks, caches or [None] * 9, strict=False):
            x = block(x, angles, mask[None, None] | (not self.causal), cache=cache)
        return self.projection(self.norm(x) if self.last_norm else x)


def _wrong(**attributes: bool) -> type:
    return type("Wrong", (_Wrong,), attributes)


language_model = Exercise(
    LanguageModel,
    [
        _reads(SMALL, 2, 7, praise="the course's logits, for two sentences at once"),
        _reads(SMALL, 3, 1, before=5, when="a token with 5 in the caches: "),
        _reads(
            *(SMALL, 1, 4),
            before=3,
            when="four tokens with 3 in the caches: ",
            praise="one token and four, behind others in the caches",
        ),
        _reads(OTHER, 2, 5, when="with other sizes: ", praise="other sizes"),
    ],
    {
        "the last norm is missing: the projection reads `self.norm(x)`": _wrong(
            last_norm=False
        ),
        "each token sees those after it: hand the blocks a causal mask": _wrong(
            causal=False
        ),
        "the places start at 0 again: those of new tokens begin at `len(caches[0])`": (
            _wrong(goes_on=False)
        ),
        "the blocks know no places: hand them the angles of the tokens": _wrong(
            turns=False
        ),
        "the embeddings are multiplied by √d_model: that was the Transformer of "
        "lesson 08": _wrong(scale=True),
    },
    attributes=("config",),
    initial=_starts_badly,
    lesson="18",
)

# ------------------------------------------------------------ 18.2 the answer's loss


def _sequences(vocabulary: int, *lengths: tuple[int, int], **said) -> Probe:
    """Logits, tokens and prompts' lengths, for rows of (prompt, answer) tokens."""
    chance = torch.Generator().manual_seed(vocabulary)
    length = max(map(sum, lengths))
    tokens = torch.randint(4, vocabulary, (len(lengths), length), generator=chance)
    for row, (prompt, answer) in zip(tokens, lengths, strict=True):
        row[0] = BOS
        row[prompt + answer - 1] = EOS
        row[prompt + answer :] = PAD
    shape = len(lengths), length, vocabulary
    logits = 3 * torch.randn(shape, generator=chance, dtype=torch.float64)
    return Probe(logits, tokens, torch.tensor([x for x, _ in lengths]), **said)


def _wrong_loss(
    logits: Tensor,
    tokens: Tensor,
    prompts: Tensor,
    *,
    same_place: bool = False,
    begins: int = 0,
    everything: bool = False,
    padding: bool = False,
    ends: bool = True,
    reading: bool = False,
    mean: Callable = F.cross_entropy,
) -> Tensor:
    """The loss on the answer, and with other options what is wrong with it."""
    labels = tokens[:, 1:]
    told = tokens[:, :-1] if reading else labels
    places = torch.arange(1, tokens.size(1)) - int(reading)
    counted = (places >= prompts[:, None] + begins) | everything
    counted &= (told != PAD) | padding
    counted &= (told != EOS) | ends
    said = logits[:, 1:] if same_place else logits[:, :-1]
    if mean is F.cross_entropy:
        return mean(said[counted], labels[counted])
    return mean(said, labels, counted)


def _by_sentence(said: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    rows = zip(said, labels, counted, strict=True)
    return torch.stack([F.cross_entropy(x[c], y[c]) for x, y, c in rows]).mean()


def _sum(said: Tensor, labels: Tensor, counted: Tensor) -> Tensor:
    return F.cross_entropy(said[counted], labels[counted], reduction="sum")


answer_loss = Exercise(
    writing.answer_loss,
    [
        _sequences(9, (3, 4), (5, 2), (2, 3), praise="three answers, EOS included"),
        _sequences(13, (6, 3), (2, 8), when="with two answers: "),
        _sequences(7, (4, 20), praise="another number of sentences"),
    ],
    {
        "the logits at a place are held against the token that stands there: they say "
        "the *next* one, `logits[:, :-1]` and `tokens[:, 1:]`": partial(
            _wrong_loss, same_place=True
        ),
        "what counts is not shifted: it is told by the labels, `tokens[:, 1:]`, and "
        "their places": partial(_wrong_loss, reading=True),
        "the prompt counts, too: leave out the labels before the answer": partial(
            _wrong_loss, everything=True
        ),
        "the first token of the answer is left out: it stands at the place `prompts`, "
        "and is predicted from the prompt's last token": partial(_wrong_loss, begins=1),
        "padding counts, too: leave out the labels that are PAD": partial(
            _wrong_loss, padding=True
        ),
        "the end of the answer is left out: the model has to learn EOS, too": partial(
            _wrong_loss, ends=False
        ),
        "the mean is taken for each sentence, then over sentences: each token that "
        "counts has the same weight": partial(_wrong_loss, mean=_by_sentence),
        "the losses are added up: take their mean": partial(_wrong_loss, mean=_sum),
    },
)

# ------------------------------------------------------------ 18.3 prefill and decode


class Teller(LanguageModel):
    """Says EOS when `ends` tokens have gone before; keeps the length of each pass."""

    def __init__(self, ends: int):
        super().__init__(LanguageModelConfig(14, 16, 4, 2, 24, 2))
        self.ends, self.passes = ends, []
        for parameter in self.eval().requires_grad_(False).parameters():
            parameter *= 20 if parameter.dim() == 2 else 1

    def forward(self, tokens: Tensor, caches: Any = None) -> Tensor:
        """The model's, but for EOS."""
        if len(self.passes) > 99:
            raise Wrong("100 passes, and no end: the loop goes on")
        before = len(caches[0]) if caches else 0
        logits = super().forward(tokens, caches)
        self.passes.append(tokens.size(1))
        places = before + torch.arange(1, tokens.size(1) + 1)
        logits[..., EOS] = torch.where(places == self.ends, 99.0, -99.0)
        return logits


def _to_continue(prompt: int, ends: int, max_new: int, **said) -> Probe:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(prompt)
        ids = torch.randint(4, 14, (1, prompt))
        return Probe(Teller(ends), ids, max_new, **said)


def _ids_and_passes(output: Any, model: Teller, *_: Any) -> tuple[list, list]:
    """The ids, and how many tokens each pass read.

    One more pass, of the last token alone, is no mistake, and is left out.
    """
    try:
        ids = torch.as_tensor(output)
    except (TypeError, ValueError, RuntimeError):
        ids = torch.empty(0, 0)
    if ids.dim() == 2 and len(ids) == 1:
        ids = ids[0]
    if ids.dim() != 1 or (ids.is_floating_point() and len(ids)):
        raise Wrong("return the ids of the new tokens: a list, or a tensor (n,)")
    if model.training:
        raise Wrong("the model comes in evaluation mode: leave it so")
    passes = model.passes
    if len(passes) == len(ids) + 1 and passes[-1] == 1:
        passes = passes[:-1]
    return ids.tolist(), passes


class _Writes(Exercise):
    """An exercise that says whether the ids are wrong, or only what ran."""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        ids, passes = (
            [*map(list, x)] for x in zip(yours.output, due.output, strict=True)
        )
        if ids[0] == ids[1]:
            return (
                f"the ids are right, but the passes read {passes[0]} tokens, where "
                f"{passes[1]} are due: the prompt at once, then one token each"
            )
        return f"the ids are {ids[0]}, due is {ids[1]}"


def _wrong_writer(
    model: Teller,
    prompt: Tensor,
    max_new: int,
    *,
    prefills: bool = True,
    decodes: bool = True,
    whole: bool = False,
    one_by_one: bool = False,
    stops: bool = True,
    end: bool = True,
    more: int = 0,
) -> list[int]:
    """The writer, and with other options what is wrong with it."""
    caches, ids, new = [AttentionCache() for _ in model.blocks], [], prompt
    for place in range((prompt.size(1) - 1) * one_by_one):
        model(prompt[:, place : place + 1], caches)
        new = prompt[:, place + 1 : place + 2]
    while len(ids) < max_new + more and not (stops and EOS in ids):
        used = decodes if ids else prefills
        ids.append(model(new, caches if used else None)[0, -1].argmax().item())
        new = torch.tensor([ids[-1:]])
        if whole:
            new = torch.cat([prompt, torch.tensor([ids])], dim=1)
    return [i for i in ids if end or i != EOS]


generate = _Writes(
    writing.generate,
    [
        _to_continue(4, 9, 12, praise="it stops at EOS"),
        _to_continue(7, 40, 6, praise="or after max_new tokens"),
        _to_continue(1, 3, 30, when="with a prompt of one token: "),
        _to_continue(11, 11, 6, when="where EOS follows the prompt: "),
        _to_continue(
            *(3, 60, 40),
            praise="the prompt is read in one pass, then each token alone",
        ),
    ],
    {
        "the ids are right, but all tokens run through the model at each step: hand "
        "over the caches, and the new token alone": partial(
            _wrong_writer, prefills=False, decodes=False, whole=True
        ),
        "the caches hold old tokens twice: after the prefill, hand over the new token "
        "alone": partial(_wrong_writer, whole=True),
        "the prompt is never put into the caches: hand them over in the prefill, "
        "too": partial(_wrong_writer, prefills=False),
        "the new token sees itself alone: hand over the caches that the prefill has "
        "filled": partial(_wrong_writer, decodes=False),
        "the ids are right, but the prompt runs token by token: the prefill is one "
        "pass": partial(_wrong_writer, one_by_one=True),
        "it goes on after EOS": partial(_wrong_writer, stops=False),
        "EOS is left out: it belongs to the answer": partial(_wrong_writer, end=False),
    },
    read=_ids_and_passes,
)
