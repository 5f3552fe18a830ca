"""The exercises of lesson 18: a language model, its loss, and how it writes."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.caching import AttentionCache
from helpers.exercise import Exercise, Outcome, Probe, Wrong, differs, listed
from helpers.masks import causal_mask
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from helpers.modern.rotary import rotary_angles
from lessons.lesson18 import writing

# ------------------------------------------------------------------ 18.1 the model

# vocabulary, d_model, heads, heads of keys, d_ff, layers, places, base
SMALL = LanguageModelConfig(19, 16, 4, 2, 24, 2, 32, 50.0)
OTHER = LanguageModelConfig(23, 24, 2, 1, 20, 3, 16)


def _reads(
    config: LanguageModelConfig,
    batch: int,
    length: int,
    *,
    before: int | None = None,
    **said,
) -> Probe:
    """Tokens for a model of these sizes; with caches, which hold some before them."""
    chance = torch.Generator().manual_seed(length + (before or 0))
    tokens = torch.randint(4, config.vocab_size, (batch, length), generator=chance)
    d_head = config.d_model // config.n_heads
    shape = batch, config.n_kv_heads, before, d_head
    caches = [
        AttentionCache(
            *(torch.randn(shape, generator=chance) for _ in range(2) if before)
        )
        for _ in range(config.n_layers)
    ]
    given = (tokens,) if before is None else (tokens, caches)
    return Probe(*given, build=lambda made: made(config), **said)


def _logits_and_lengths(logits: Any, tokens: Tensor, caches: Any = None) -> tuple:
    """The logits, and how many tokens each cache holds after the pass."""
    return logits, tuple(map(len, caches or ()))


class _Models(Exercise):
    """Compares the logits, and what went into the caches."""

    def _described(self, yours: Outcome, due: Outcome) -> str:
        if yours.error:
            return super()._described(yours, due)
        (logits, held), (wanted, full) = yours.output, due.output
        if held != full:
            return (
                f"after the pass, the caches hold {listed([*map(str, held)])} tokens, "
                f"where {full[0]} are due in each: hand every block its own, empty or "
                "not, and no copy of it"
            )
        return f"the result {differs(logits, wanted)}"


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

    last_norm, causal, goes_on, own_base, rows = True, True, True, True, True

    def forward(self, tokens: Tensor, caches: list | None = None) -> Tensor:
        start = len(caches[0]) if caches else 0
        end, angles = start + tokens.size(1), self.angles
        mask = causal_mask(end)[:, :, start * self.rows :] | (not self.causal)
        if not self.own_base:
            angles = rotary_angles(end, 2 * angles.size(1))
        angles = angles[start:end] if self.goes_on else angles[: end - start]
        x = self.embedding(tokens)
        for block, cache in zip(self.blocks, caches or [None] * 9, strict=False):
            x = block(x, angles, mask, cache=cache)
        return self.projection(self.norm(x) if self.last_norm else x)


def _wrong(**attributes: bool) -> type:
    return type("Wrong", (_Wrong,), attributes)


language_model = _Models(
    LanguageModel,
    [
        _reads(SMALL, 2, 7, praise="the course's logits, for two sentences at once"),
        _reads(SMALL, 2, 6, before=0, when="with empty caches: "),
        _reads(SMALL, 3, 1, before=5, when="a token with 5 in the caches: "),
        _reads(
            *(SMALL, 1, 4),
            before=3,
            when="four tokens with 3 in the caches, so a mask of 4 rows, 7 columns: ",
            praise="one token and four, behind others in the caches",
        ),
        _reads(OTHER, 2, 5, when="with other sizes: ", praise="other sizes"),
        _reads(SMALL, 2, 5, when="in training mode: ", training=True),
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
        "the angles have the usual base: hand `base=config.rotary_base` to "
        "`rotary_angles`": _wrong(own_base=False),
        "the mask has a row for each old token, too: of its rows, those of the new "
        "tokens are due, `mask[:, :, start:]`": _wrong(rows=False),
    },
    attributes=("config",),
    read=_logits_and_lengths,
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
    shift: int = 1,
    begins: int = 0,
    padding: bool = False,
    reading: bool = False,
    one_prompt: bool = False,
    divides_by_all: bool = False,
) -> Tensor:
    """The loss on the answer, and with other options what is wrong with it."""
    end = tokens.size(1) - abs(shift)
    said = logits[:, max(-shift, 0) :][:, :end]
    labels = tokens[:, max(shift, 0) :][:, :end]
    places = torch.arange(end) + max(shift, 0)
    prompts = prompts[:1].expand_as(prompts) if one_prompt else prompts
    counted = (places >= prompts[:, None] + begins) & ((labels != PAD) | padding)
    if reading:
        counted = (places - 1 >= prompts[:, None]) & (tokens != PAD)[:, :-1]
    if divides_by_all:
        each = F.cross_entropy(said.mT, labels, reduction="none")
        return (each * counted).mean()
    return F.cross_entropy(said[counted], labels[counted])


def _plain(output: Any, *_: Any) -> Any:
    """A loss in whatever floats it was computed."""
    return output.float() if isinstance(output, Tensor) else output


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
            _wrong_loss, shift=0
        ),
        "the shift goes the wrong way: `logits[:, :-1]` say `tokens[:, 1:]`": partial(
            _wrong_loss, shift=-1
        ),
        "what counts is not shifted: it is told by the labels, `tokens[:, 1:]`, and "
        "their places": partial(_wrong_loss, reading=True),
        "the first token of the answer is left out: it stands at the place `prompts`, "
        "and is predicted from the prompt's last token": partial(_wrong_loss, begins=1),
        "the prompt's last token counts, too: the answer begins at the place `prompts` "
        "of `tokens`": partial(_wrong_loss, begins=-1),
        "padding counts, too: leave out the labels that are PAD": partial(
            _wrong_loss, padding=True
        ),
        "the sum is divided by all labels: divide it by the number of those that "
        "count": partial(_wrong_loss, divides_by_all=True),
        "all answers begin where the first does: each row has its own number in "
        "`prompts`, so compare with `prompts[:, None]`": partial(
            _wrong_loss, one_prompt=True
        ),
    },
    read=_plain,
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
        if caches and len({*map(id, caches)}) < len(caches):
            raise Wrong(
                "all blocks share one cache: `[AttentionCache()] * n` makes one, "
                "`[AttentionCache() for _ in model.blocks]` one for each block"
            )
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
    twice: bool = False,
    stops: bool = True,
    end: bool = True,
    told: bool = False,
    more: int = 0,
) -> list[int]:
    """The writer, and with other options what is wrong with it."""
    caches, ids, new = [AttentionCache() for _ in model.blocks], [], prompt
    if twice:
        model(prompt, caches)
        new = prompt[:, -1:]
    while len(ids) < max_new + more and not (stops and EOS in ids):
        used = decodes if ids else prefills
        ids.append(model(new, caches if used else None)[0, -1].argmax().item())
        new = torch.tensor([ids[-1:]])
        if whole:
            new = torch.cat([prompt, torch.tensor([ids])], dim=1)
    return prompt[0].tolist() * told + [i for i in ids if end or i != EOS]


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
        "the caches hold old tokens twice: after the prefill, hand over the new token "
        "alone": partial(_wrong_writer, whole=True),
        "the prompt is never put into the caches: hand them over in the prefill, "
        "too": partial(_wrong_writer, prefills=False),
        "the new token sees itself alone: hand over the caches that the prefill has "
        "filled": partial(_wrong_writer, decodes=False),
        "the prompt's last token is fed twice: the prefill's last logits choose the "
        "first new token": partial(_wrong_writer, twice=True),
        "the prompt is returned, too: return the new tokens alone": partial(
            _wrong_writer, told=True
        ),
        "it writes one token more than max_new": partial(_wrong_writer, more=1),
        "it goes on after EOS": partial(_wrong_writer, stops=False),
        "EOS is left out: it belongs to the answer": partial(_wrong_writer, end=False),
    },
    read=_ids_and_passes,
)
