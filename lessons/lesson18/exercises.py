"""The exercises of lesson 18: a language model, its loss, and how it writes."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.caching import AttentionCache
from helpers.exercise import Exercise, Probe, Wrong
from helpers.masks import causal_mask
from helpers.modern.language_model import LanguageModel, LanguageModelConfig
from lessons.lesson18 import writing

# ------------------------------------------------------------------ 18.1 the model

# vocabulary, d_model, heads, heads of keys, d_ff, layers, places, base
SMALL = LanguageModelConfig(19, 16, 4, 2, 24, 2, 32, 50.0)
OTHER = LanguageModelConfig(23, 24, 2, 1, 20, 3, 16)
FULL = 6  # tokens in each cache after a pass


def _reads(
    config: LanguageModelConfig, batch: int, length: int, *, caches: bool, **said: Any
) -> Probe:
    """Tokens for a model of these sizes; caches hold what is missing to FULL."""
    chance = torch.Generator().manual_seed(length)
    tokens = torch.randint(4, config.vocab_size, (batch, length), generator=chance)
    build, before = lambda made: made(config), FULL - length
    if not caches:
        return Probe(tokens, build=build, **said)
    kept = [AttentionCache() for _ in range(config.n_layers)]
    if before:
        d_head = config.d_model // config.n_heads
        for cache in kept:
            shape = 2, batch, config.n_kv_heads, before, d_head
            cache.extend(*torch.randn(shape, generator=chance))
    return Probe(tokens, kept, build=build, **said)


def _logits(logits: Any, tokens: Tensor, caches: Any = ()) -> Any:
    """The logits, if the caches have taken up the tokens."""
    held = [*map(len, caches)]
    if any(n != FULL for n in held):
        raise Wrong(
            f"after the pass, the caches hold {held} tokens, where {FULL} are due in "
            "each: hand every block its own, empty or not, and no copy of it"
        )
    return logits


def _starts_badly(model: nn.Module) -> str:
    """What is wrong with the size of the initial matrices; "" for nothing."""
    for name, weight in model.named_parameters():
        spread = weight.std().item()
        if weight.dim() == 2 and not 0.015 < spread < 0.025:
            return (
                f"`{name}` starts with a standard deviation of {spread:.2g}, not 0.02: "
                "`nn.init.normal_(…, std=0.02)` for each parameter of two axes"
            )
    return ""


class _Wrong(LanguageModel):
    """The model, and with other attributes what is wrong with it."""

    last_norm, causal, goes_on = True, True, True

    def forward(self, tokens: Tensor, caches: list | None = None) -> Tensor:
        start = len(caches[0]) if caches else 0
        end, angles = start + tokens.size(1), self.angles
        mask = causal_mask(end)[:, :, start:] | (not self.causal)
        angles = angles[start:end] if self.goes_on else angles[: end - start]
        x = self.embedding(tokens)
        kept = caches or [None] * len(self.blocks)
        for block, cache in zip(self.blocks, kept, strict=True):
            x = block(x, angles, mask, cache=cache)
        return self.projection(self.norm(x) if self.last_norm else x)


def _wrong(**attributes: bool) -> type:
    return type("Wrong", (_Wrong,), attributes)


language_model = Exercise(
    LanguageModel,
    [
        _reads(
            *(SMALL, 2, 7),
            caches=False,
            praise="the course's logits, for two sentences at once",
        ),
        _reads(SMALL, 2, 6, caches=True, when="with empty caches: "),
        _reads(SMALL, 3, 1, caches=True, when="a token with 5 in the caches: "),
        _reads(
            *(SMALL, 1, 4),
            caches=True,
            when="four tokens with 2 in the caches, so a mask of 4 rows, 6 columns: ",
            praise="one token and four, behind others in the caches",
        ),
        _reads(
            *(OTHER, 2, 5),
            caches=False,
            training=True,
            when="with other sizes, in training mode: ",
            praise="other sizes, in training mode",
        ),
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
    },
    attributes=("config",),
    read=_logits,
    initial=_starts_badly,
    lesson="18",
)

# ------------------------------------------------------------ 18.2 the answer's loss


def _sequences(vocabulary: int, *lengths: tuple[int, int], **said: str) -> Probe:
    """Logits, tokens and prompts' lengths, for rows of (prompt, answer) tokens."""
    chance = torch.Generator().manual_seed(vocabulary)
    length = max(map(sum, lengths))
    tokens = torch.randint(4, vocabulary, (len(lengths), length), generator=chance)
    for row, (prompt, answer) in zip(tokens, lengths, strict=True):
        row[0] = BOS
        row[prompt + answer - 1] = EOS
        row[prompt + answer :] = PAD
    logits = 3 * torch.randn(len(lengths), length, vocabulary, generator=chance)
    return Probe(logits, tokens, torch.tensor([x for x, _ in lengths]), **said)


def _wrong_loss(
    logits: Tensor,
    tokens: Tensor,
    prompts: Tensor,
    *,
    shift: int = 1,
    begins: int = 0,
    padding: bool = False,
) -> Tensor:
    """The loss on the answer, and with other options what is wrong with it."""
    said, labels = logits[:, : tokens.size(1) - shift], tokens[:, shift:]
    places = torch.arange(shift, tokens.size(1))
    counted = (places >= prompts[:, None] + begins) & ((labels != PAD) | padding)
    return F.cross_entropy(said[counted], labels[counted])


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
        "the first token of the answer is left out: it stands at the place `prompts`, "
        "and is predicted from the prompt's last token": partial(_wrong_loss, begins=1),
        "the prompt's last token counts, too: the answer begins at the place `prompts` "
        "of `tokens`": partial(_wrong_loss, begins=-1),
        "padding counts, too: leave out the labels that are PAD": partial(
            _wrong_loss, padding=True
        ),
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


def _to_continue(prompt: int, ends: int, max_new: int, **said: str) -> Probe:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(prompt)
        ids = torch.randint(4, 14, (1, prompt))
        return Probe(Teller(ends), ids, max_new, **said)


def _ids_and_passes(output: Any, model: Teller, *_: Any) -> str:
    """The ids, and how many tokens each pass read.

    One more pass, of the last token alone, is no mistake, and is left out.
    """
    ids = torch.as_tensor(output).tolist()
    if ids and isinstance(ids[0], list):
        (ids,) = ids
    if not all(isinstance(i, int) for i in ids):
        raise Wrong("return the ids of the new tokens: a list, or a tensor (n,)")
    if model.training:
        raise Wrong("the model comes in evaluation mode: leave it so")
    passes = model.passes
    if len(passes) == len(ids) + 1 and passes[-1] == 1:
        passes = passes[:-1]
    return "ids {}, from passes of {} tokens".format(
        *(",".join(map(str, x)) for x in (ids, passes))
    )


def _wrong_writer(
    model: Teller,
    prompt: Tensor,
    max_new: int,
    *,
    prefills: bool = True,
    whole: bool = False,
    told: bool = False,
) -> list[int]:
    """The writer, and with other options what is wrong with it."""
    caches, ids, new = [AttentionCache() for _ in model.blocks], [], prompt
    while len(ids) < max_new and EOS not in ids:
        logits = model(new, caches if ids or prefills else None)
        ids.append(logits[0, -1].argmax().item())
        new = torch.tensor([ids[-1:]])
        if whole:
            new = torch.cat([prompt, torch.tensor([ids])], dim=1)
    return prompt[0].tolist() * told + ids


generate = Exercise(
    writing.generate,
    [
        _to_continue(4, 9, 12, praise="it stops at EOS"),
        _to_continue(7, 40, 6, praise="or after max_new tokens"),
        _to_continue(1, 3, 30, when="with a prompt of one token: "),
        _to_continue(
            *(11, 11, 6),
            when="where EOS follows the prompt: ",
            praise="the prompt is read in one pass, then each token alone",
        ),
    ],
    {
        "the caches hold old tokens twice: after the prefill, hand over the new token "
        "alone": partial(_wrong_writer, whole=True),
        "the prompt is never put into the caches: hand them over in the prefill, "
        "too": partial(_wrong_writer, prefills=False),
        "the prompt is returned, too: return the new tokens alone": partial(
            _wrong_writer, told=True
        ),
    },
    read=_ids_and_passes,
)
