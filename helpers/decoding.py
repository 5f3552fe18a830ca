"""From a trained model to a translation: greedy, sampling, beam search (lesson 11)."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from helpers import BOS, EOS, PAD
from helpers.decoder import LayerCache
from helpers.transformer import Transformer


@contextmanager
def inference(model: torch.nn.Module) -> Iterator[None]:
    """Switch dropout and gradients off for a block; the model's mode comes back."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def write_tokens(
    model: Transformer,
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
        memory, caches = model.encode(source), model.new_caches()
        tokens = source.new_full((source.size(0), 1), BOS)
        finished = source.new_zeros(source.size(0), dtype=torch.bool)
        for _ in range(max_length):
            scores = next_token_scores(model, tokens, memory, source, caches)
            token = choose(scores).masked_fill(finished, PAD)
            tokens = torch.cat([tokens, token[:, None]], dim=1)
            finished |= token == EOS
            if finished.all():
                break
    return tokens[:, 1:]


def greedy_decode(model: Transformer, source: Tensor, *, max_length: int) -> Tensor:
    """Take the most probable token at every step, until EOS or max_length tokens.

    source (batch, source_length) -> ids (batch, ≤ max_length) without BOS, PAD after
    EOS. ValueError if max_length exceeds the positional table.
    """
    return write_tokens(
        model, source, lambda scores: scores.argmax(dim=-1), max_length=max_length
    )


def sample_decode(
    model: Transformer,
    source: Tensor,
    *,
    max_length: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw every token by its probability, until EOS or max_length tokens.

    source (batch, source_length) -> ids (batch, ≤ max_length) without BOS, PAD after
    EOS. Log-probabilities are divided by the temperature: below 1 likely tokens gain,
    above 1 they lose. With top_k only that many, the likeliest, can be drawn.
    ValueError unless temperature is positive and finite and top_k at least 1, or if
    max_length exceeds the positional table.
    """
    if not 0 < temperature < math.inf:
        raise ValueError(f"temperature must be positive and finite: {temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1: {top_k}")

    def draw(scores: Tensor) -> Tensor:
        vocabulary = scores.size(-1)
        likeliest = scores.topk(min(top_k or vocabulary, vocabulary))
        shares = (likeliest.values / temperature).softmax(dim=-1)
        drawn = torch.multinomial(shares, 1, generator=generator)
        return likeliest.indices.gather(1, drawn).squeeze(1)

    return write_tokens(model, source, draw, max_length=max_length)


def beam_search(
    model: Transformer,
    source: Tensor,
    *,
    beam_size: int = 4,
    length_penalty: float = 0.6,
    max_length: int,
) -> Tensor:
    """Keep the beam_size best hypotheses; return each sentence's best at the end.

    source (batch, source_length) -> ids (batch, ≤ max_length) without BOS, PAD after
    EOS. Hypotheses are ranked by log-probability over ((5 + tokens) / 6) ** penalty;
    a finished one keeps its place until better ones push it out.
    Vaswani et al. 2017, section 6.1; Wu et al. 2016, equation 14.
    ValueError if beam_size is below 1 or max_length exceeds the positional table.
    """
    check_max_length(model, max_length)
    if beam_size < 1:
        raise ValueError(f"beam_size must be at least 1: {beam_size}")
    batch = source.size(0)
    with inference(model):
        # Every hypothesis has a row of its own; rows of one sentence lie together.
        memory = model.encode(source).repeat_interleave(beam_size, dim=0)
        source = source.repeat_interleave(beam_size, dim=0)
        caches = model.new_caches()
        first_rows = torch.arange(batch, device=source.device)[:, None] * beam_size
        tokens = source.new_full((batch * beam_size, 1), BOS)
        finished = source.new_zeros(batch * beam_size, dtype=torch.bool)
        # All start alike, so at first only one of each sentence's rows may count.
        totals = memory.new_full((batch, beam_size), -torch.inf, dtype=torch.float32)
        totals[:, 0] = 0.0
        for _ in range(max_length):
            scores = next_token_scores(model, tokens, memory, source, caches)
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
            for cache in caches:  # cross-attention is the same for all of a sentence
                cache.self_attention.select(rows)
        lengths = (tokens[:, 1:] != PAD).sum(1)
        ranked = totals / penalty(lengths, length_penalty).view(batch, -1)
        tokens = tokens[first_rows[:, 0] + ranked.argmax(dim=1), 1:]
    return tokens[:, : int((tokens != PAD).sum(1).max())]


def penalty(lengths: Tensor, strength: float) -> Tensor:
    """((5 + length) / 6) ** strength; 0 leaves log-probabilities as they are."""
    return ((5 + lengths) / 6) ** strength


def next_token_scores(
    model: Transformer,
    tokens: Tensor,
    memory: Tensor,
    source: Tensor,
    caches: list[LayerCache],
) -> Tensor:
    """Log-probabilities (batch, target_vocab) of the token after tokens.

    Only the last of tokens (batch, length) is new to the caches. PAD and BOS are no
    words, so they are never chosen.
    """
    states = model.decode(tokens[:, -1:], memory, source, caches=caches)
    logits = model.project(states[:, -1]).float()
    logits[:, [PAD, BOS]] = -torch.inf
    return logits.log_softmax(dim=-1)


def check_max_length(model: Transformer, max_length: int) -> None:
    """ValueError unless 1 ≤ max_length ≤ the length of the positional table."""
    longest = model.config.max_length
    if not 1 <= max_length <= longest:
        raise ValueError(f"max_length must lie between 1 and {longest}: {max_length}")
