"""From a trained model to a translation: greedy, sampling, beam search (lesson 11)."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD
from helpers.batching import pad
from helpers.caching import CachedDecoding, can_cache
from helpers.transformer import Transformer


class PrefixDecoding:
    """Decoding for any model: the whole prefix runs through it again at every step."""

    def __init__(self, model: nn.Module, source: Tensor):
        self.model, self.source, self.memory = model, source, model.encode(source)
        self.tokens = source.new_empty(len(source), 0)

    def step(self, token: Tensor) -> Tensor:
        """The newest token of each row (rows,) -> logits (rows, target_vocab)."""
        self.tokens = torch.cat([self.tokens, token[:, None]], dim=1)
        states = self.model.decode(self.tokens, self.memory, self.source)
        return self.model.project(states[:, -1])

    def select(self, rows: Tensor) -> None:
        """Keep the given rows, in their order; rows may repeat."""
        self.tokens, self.source = self.tokens[rows], self.source[rows]
        self.memory = self.memory[rows]


def start_decoding(model: nn.Module, source: Tensor) -> PrefixDecoding | CachedDecoding:
    """Read a source (batch, source_length), and choose how to write its translation.

    From the model's own state if it has one (a method `start_decoding`), from caches if
    it decodes as the course's Transformer does, else from the prefix.
    """
    if hasattr(model, "start_decoding"):
        return model.start_decoding(source)
    if can_cache(model):
        return CachedDecoding(model, source)
    return PrefixDecoding(model, source)


@contextmanager
def inference(model: nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off for a block; the model's mode comes back."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def write_tokens(
    model: nn.Module,
    source: Tensor,
    choose: Callable[[Tensor], Tensor],
    *,
    max_length: int,
) -> Tensor:
    """Let `choose` pick every next token, until EOS or max_length tokens.

    choose maps log-probabilities (batch, target_vocab) to ids (batch,).
    source (batch, source_length) -> ids (batch, ≤ max_length) without BOS, PAD after
    EOS. ValueError if max_length exceeds the positional table.
    """
    check_max_length(model, max_length)
    with inference(model):
        decoding = start_decoding(model, source)
        token = source.new_full((len(source),), BOS)
        finished = torch.zeros_like(token, dtype=torch.bool)
        written = []
        for _ in range(max_length):
            scores = next_token_scores(decoding, token)
            token = choose(scores).masked_fill(finished, PAD)
            written.append(token)
            finished |= token == EOS
            if finished.all():
                break
    return torch.stack(written, dim=1)


def greedy_decode(model: nn.Module, source: Tensor, *, max_length: int) -> Tensor:
    """`write_tokens` with the most probable token at every step."""
    return write_tokens(
        model, source, lambda scores: scores.argmax(dim=-1), max_length=max_length
    )


def likeliest_tokens(
    scores: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """The tokens that may be drawn, the likeliest first, and the share of each.

    scores: log-probabilities (batch, target_vocab) -> two of (batch, tokens). They are
    divided by the temperature; of the top_k likeliest, only the first count that hold
    top_p of the probability together. The others of these have a share of 0.
    """
    vocabulary = scores.size(-1)
    values, tokens = scores.topk(min(top_k or vocabulary, vocabulary))
    shares = (values / temperature).softmax(dim=-1)
    if top_p < 1:
        before = shares.cumsum(dim=-1) - shares  # what the likelier ones hold
        shares = shares.masked_fill(before >= top_p, 0.0)
        shares = shares / shares.sum(dim=-1, keepdim=True)
    return tokens, shares


def sample_decode(
    model: nn.Module,
    source: Tensor,
    *,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw every token from `likeliest_tokens`, until EOS or max_length tokens.

    source (batch, source_length) -> ids (batch, ≤ max_length) without BOS, PAD after
    EOS. ValueError unless temperature is positive and finite, top_k at least 1 and
    0 < top_p ≤ 1, or if max_length exceeds the positional table.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite: {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1: {top_k}")
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie above 0 and be at most 1: {top_p}")
    options = {"temperature": temperature, "top_k": top_k, "top_p": top_p}

    def draw(scores: Tensor) -> Tensor:
        tokens, shares = likeliest_tokens(scores, **options)
        drawn = torch.multinomial(shares, 1, generator=generator)
        return tokens.gather(1, drawn).squeeze(1)

    return write_tokens(model, source, draw, max_length=max_length)


def beam_search(
    model: nn.Module,
    source: Tensor,
    *,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    max_length: int,
) -> Tensor:
    """Keep the beam_size best hypotheses; return each sentence's best at the end.

    Shapes as in `write_tokens`. Hypotheses are ranked by log-probability / penalty; a
    finished one keeps its place until better ones push it out. Vaswani et al. 2017,
    section 6.1. ValueError if beam_size is below 1 or max_length too large.
    """
    check_max_length(model, max_length)
    if beam_size < 1:
        raise ValueError(f"beam_size must be at least 1: {beam_size}")
    batch = source.size(0)
    with inference(model):
        # Every hypothesis has a row of its own; rows of one sentence lie together.
        sentences = torch.arange(batch, device=source.device)
        first_rows = sentences[:, None] * beam_size
        decoding = start_decoding(model, source)
        decoding.select(sentences.repeat_interleave(beam_size))
        tokens = source.new_full((batch * beam_size, 1), BOS)
        finished = source.new_zeros(batch * beam_size, dtype=torch.bool)
        # All start alike, so at first only one of each sentence's rows may count.
        totals = torch.full((batch, beam_size), -torch.inf, device=source.device)
        totals[:, 0] = 0.0
        for _ in range(max_length):
            scores = next_token_scores(decoding, tokens[:, -1])
            scores[finished] = -torch.inf
            scores[finished, PAD] = 0.0  # a finished hypothesis goes on unchanged
            candidates = totals[:, :, None] + scores.unflatten(0, (batch, beam_size))
            lengths = (tokens[:, 1:] != PAD).sum(1) + ~finished
            ranked = candidates / penalty(lengths, length_penalty).view(batch, -1, 1)
            best = ranked.flatten(1).topk(beam_size).indices  # (batch, beam_size)
            totals = candidates.flatten(1).gather(1, best)
            origin, token = best // scores.size(1), (best % scores.size(1)).flatten()
            rows = (first_rows + origin).flatten()
            tokens = torch.cat([tokens[rows], token[:, None]], dim=1)
            finished = finished[rows] | (token == EOS)
            if finished.all():
                break
            decoding.select(rows)
        lengths = (tokens[:, 1:] != PAD).sum(1)
        ranked = totals / penalty(lengths, length_penalty).view(batch, -1)
        tokens = tokens[first_rows[:, 0] + ranked.argmax(dim=1), 1:]
    return tokens[:, : int((tokens != PAD).sum(1).max())]


def translate_ids(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    *,
    decode: Callable[..., Tensor] = greedy_decode,
    sentences_per_batch: int = 100,
    max_length: int | None = None,
) -> list[list[int]]:
    """Decode many sources (ids without EOS), in the order given.

    Without a max_length it is 100, or the positional table's length if that is less.
    Returns target ids up to EOS, without it. Sentences of like length share a batch, so
    that little of the work is padding. `decode` is greedy_decode or a beam search with
    its options bound. ValueError if max_length exceeds the positional table.
    """
    if max_length is None:
        max_length = min(100, model.config.max_length)
    device = next(model.parameters()).device
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    outputs: list[list[int]] = [[] for _ in sources]
    for start in range(0, len(order), sentences_per_batch):
        rows = order[start : start + sentences_per_batch]
        batch = pad([[*sources[i], EOS] for i in rows]).to(device)
        decoded = decode(model, batch, max_length=max_length).tolist()
        for i, ids in zip(rows, decoded, strict=True):
            outputs[i] = until_end(ids)
    return outputs


def until_end(ids: Sequence[int]) -> list[int]:
    """The ids before the first EOS, or all of them."""
    ids = list(ids)
    return ids[: ids.index(EOS)] if EOS in ids else ids


def penalty(lengths: Tensor, strength: float) -> Tensor:
    """((5 + length) / 6) ** strength; Wu et al. 2016, equation 14."""
    return ((5 + lengths) / 6) ** strength


def next_token_scores(
    decoding: PrefixDecoding | CachedDecoding, token: Tensor
) -> Tensor:
    """Log-probabilities (rows, target_vocab) of what follows each row's newest token.

    PAD and BOS are no words, so they are never chosen.
    """
    logits = decoding.step(token).float()
    logits[:, [PAD, BOS]] = -torch.inf
    return logits.log_softmax(dim=-1)


def check_max_length(model: nn.Module, max_length: int) -> None:
    """ValueError unless 1 ≤ max_length ≤ the model's.

    TypeError for a model without the methods and the configuration of a Transformer.
    """
    wanted = ("encode", "decode", "project", "config")
    missing = ", ".join(name for name in wanted if not hasattr(model, name))
    if missing:
        raise TypeError(f"{type(model).__name__} cannot be decoded: no {missing}")
    longest = model.config.max_length
    if not 1 <= max_length <= longest:
        raise ValueError(f"max_length must lie between 1 and {longest}: {max_length}")
