"""What a user would otherwise pick, written as its own documentation would have it.

PyTorch's nn.Transformer and d2l's modules, each in a plain training loop; decoding
without a cache; shuffled batches padded to their longest. All of them take the course's
weights, so that outputs can be compared before times are.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from helpers import BOS, EOS, PAD
from helpers.batching import Batch, IdPair, make_batch
from helpers.interop.pytorch import copy_norm, copy_stack
from helpers.interop.torch_translator import TorchTranslator
from helpers.transformer import Transformer

# -- models ----------------------------------------------------------------------------


@torch.no_grad()
def pytorch_model(model: Transformer, *, dropout: float) -> TorchTranslator:
    """nn.Transformer between embeddings and a projection, with the weights of ours.

    Its dropout also falls on attention weights and inside the feed-forward network,
    where the paper has none: that is PyTorch's choice, and what its users run.
    """
    config = model.config
    theirs = TorchTranslator(
        config.source_vocab,
        config.target_vocab,
        d_model=config.d_model,
        n_heads=config.n_heads,
        d_ff=config.d_ff,
        n_layers=config.n_layers,
        dropout=dropout,
        norm_first=config.norm_first,
        max_length=config.max_length,
    )
    theirs.projection = nn.Linear(config.d_model, config.target_vocab, bias=False)
    copy_stack(model.encoder, theirs.core.encoder)
    copy_stack(model.decoder, theirs.core.decoder)
    theirs.source_embedding.weight.copy_(model.source_embedding.weight)
    theirs.target_embedding.weight.copy_(model.target_embedding.weight)
    theirs.projection.weight.copy_(model.projection.weight)
    return theirs.to(next(model.parameters()).device)


def d2l_model(model: Transformer, *, dropout: float) -> nn.Module:
    """d2l's TransformerEncoder, and a decoder of d2l's attention, with our weights.

    The d2l package has no decoder of its own: the book's reader writes it, here as
    lessons/lesson16/readings/d2l_blocks.py does. Norm last, as d2l is: ValueError for a
    model with norm first.
    """
    # Here, since it imports d2l, which takes seconds.
    from lessons.lesson16.readings.d2l_blocks import TransformerDecoder, d2l

    c = model.config
    if c.norm_first:
        raise ValueError("d2l's blocks normalise last: norm_first must be False")
    encoder = d2l.TransformerEncoder(
        c.source_vocab,
        *(c.d_model, c.d_model, c.d_model, c.d_model),  # key, query, value, hidden
        [c.d_model],
        *(c.d_model, c.d_ff, c.n_heads, c.n_layers, dropout),
        use_bias=True,
    )
    decoder = TransformerDecoder(
        c.target_vocab,
        *(c.d_model, c.d_model, c.d_model, c.d_model),
        [c.d_model],
        *(c.d_model, c.d_ff, c.n_heads, c.n_layers, dropout),
        use_bias=True,
    )
    decoder.dense = nn.Linear(c.d_model, c.target_vocab, bias=False)
    copy_d2l(model, encoder, decoder)
    device = next(model.parameters()).device
    return d2l.EncoderDecoder(encoder, decoder).to(device)


@torch.no_grad()
def copy_d2l(model: Transformer, encoder: nn.Module, decoder: nn.Module) -> None:
    """Our weights into d2l's modules of the same sizes."""
    names = ("query", "key", "value", "output")

    def copy(layer: nn.Module, blk: nn.Module, attentions: Sequence[str]) -> None:
        ours = (layer.self_attention, getattr(layer, "cross_attention", None))
        for attention, name in zip(ours, attentions, strict=False):
            theirs = getattr(blk, name)
            for part in names:
                linear = getattr(attention, f"{part}_projection")
                getattr(theirs, f"W_{part[0]}").load_state_dict(linear.state_dict())
        blk.ffn.dense1.load_state_dict(layer.feed_forward.expand.state_dict())
        blk.ffn.dense2.load_state_dict(layer.feed_forward.contract.state_dict())
        for i, residual in enumerate(layer.residuals, start=1):
            copy_norm(residual.norm, getattr(blk, f"addnorm{i}").ln)

    for layer, blk in zip(model.encoder.layers, encoder.blks, strict=True):
        copy(layer, blk, ["attention"])
    for layer, blk in zip(model.decoder.layers, decoder.blks, strict=True):
        copy(layer, blk, ["attention1", "attention2"])
    encoder.embedding.weight.copy_(model.source_embedding.weight)
    decoder.embedding.weight.copy_(model.target_embedding.weight)
    decoder.dense.weight.copy_(model.projection.weight)


# -- training --------------------------------------------------------------------------


class PlainTrainer:
    """The loop of PyTorch's tutorials: logits of every position, padding ignored.

    Optimizer, clipping and label smoothing are the course's, since the work must be the
    same; AdamW is called as it comes. `autocast` opens a block of mixed precision.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        rate: float,
        label_smoothing: float = 0.1,
        clip_norm: float = 1.0,
        weight_decay: float = 0.01,
        autocast: Callable[[], torch.autocast] | None = None,
    ):
        self.model, self.clip_norm, self.autocast = model, clip_norm, autocast
        self.smoothing = label_smoothing
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=rate,
            betas=(0.9, 0.98),
            eps=1e-9,
            weight_decay=weight_decay,
        )
        self.criterion = self.make_criterion()
        model.train()

    def make_criterion(self) -> nn.Module:
        """What `loss` gives logits and labels to."""
        return nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=self.smoothing)

    def loss(self, batch: Batch) -> Tensor:
        """Mean cross-entropy in nats over the real tokens, a scalar."""
        logits = self.model(batch.source, batch.decoder_input)
        return self.criterion(logits.flatten(0, 1), batch.labels.flatten())

    def clip(self) -> None:
        """Scale the gradients down to clip_norm where their norm exceeds it."""
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)

    def train_step(self, batch: Batch) -> float:
        """One step; the loss that it started from."""
        self.optimizer.zero_grad()
        if self.autocast is None:
            loss = self.loss(batch)
        else:
            with self.autocast():
                loss = self.loss(batch)
        loss.backward()
        self.clip()
        self.optimizer.step()
        return loss.item()


class D2lTrainer(PlainTrainer):
    """d2l's train_seq2seq: valid lengths, its masked loss, its clipping."""

    def make_criterion(self) -> nn.Module:
        """d2l's masked loss, which takes the valid lengths too."""
        from lessons.lesson16.readings.d2l_blocks import d2l

        self.grad_clipping = d2l.grad_clipping
        return d2l.MaskedSoftmaxCELoss(label_smoothing=self.smoothing)

    def loss(self, batch: Batch) -> Tensor:
        """d2l adds up the sentences' mean losses; this is the mean over tokens."""
        source_lengths = (batch.source != PAD).sum(dim=1)
        lengths = (batch.labels != PAD).sum(dim=1)
        logits, _ = self.model(batch.source, batch.decoder_input, source_lengths)
        losses = self.criterion(logits, batch.labels, lengths)
        return losses.sum() * batch.labels.size(1) / lengths.sum()

    def clip(self) -> None:
        """By d2l's own code, in place."""
        self.grad_clipping(self.model, self.clip_norm)


def shuffled_batches(
    pairs: Sequence[IdPair], *, tokens_per_batch: int, generator: torch.Generator
) -> Iterator[Batch]:
    """Pairs in an order by chance, as many a batch as fit when padded to the longest.

    The budget is that of `bucketed_batches`: target tokens, padding included.
    """
    batch: list[IdPair] = []
    longest = 0
    for i in torch.randperm(len(pairs), generator=generator).tolist():
        length = len(pairs[i][1]) + 1  # EOS in the labels
        if batch and (len(batch) + 1) * max(longest, length) > tokens_per_batch:
            yield make_batch(batch)
            batch, longest = [], 0
        batch.append(pairs[i])
        longest = max(longest, length)
    if batch:
        yield make_batch(batch)


# -- decoding without a cache ----------------------------------------------------------


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; the model's mode comes back."""
    training = model.training
    model.eval()
    with torch.no_grad():
        yield
    model.train(training)


def read(model: TorchTranslator, source: Tensor) -> Tensor:
    """The encoder's memory, computed once a source."""
    embedded = model.embed(model.source_embedding, source)
    return model.core.encoder(embedded, src_key_padding_mask=source == PAD)


def next_scores(
    model: TorchTranslator, tokens: Tensor, memory: Tensor, source: Tensor
) -> Tensor:
    """Log-probabilities of the token after tokens (batch, length), all read again."""
    length = tokens.size(1)
    future = torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
    states = model.core.decoder(
        model.embed(model.target_embedding, tokens),
        memory,
        tgt_mask=future,
        tgt_key_padding_mask=tokens == PAD,
        memory_key_padding_mask=source == PAD,
    )
    logits = model.projection(states[:, -1])  # only the last is asked for
    logits[:, [PAD, BOS]] = -math.inf
    return logits.log_softmax(dim=-1)


def plain_greedy(model: TorchTranslator, source: Tensor, *, max_length: int) -> Tensor:
    """The likeliest token at every step, until all sentences have ended."""
    with evaluating(model):
        memory = read(model, source)
        tokens = torch.full((source.size(0), 1), BOS, device=source.device)
        finished = torch.zeros(source.size(0), dtype=torch.bool, device=source.device)
        for _ in range(max_length):
            token = next_scores(model, tokens, memory, source).argmax(dim=-1)
            token[finished] = PAD
            tokens = torch.cat([tokens, token[:, None]], dim=1)
            finished |= token == EOS
            if finished.all():
                break
    return tokens[:, 1:]


def plain_beam(
    model: TorchTranslator,
    source: Tensor,
    *,
    beam_size: int,
    length_penalty: float,
    max_length: int,
) -> Tensor:
    """Beam search with the course's scores and rules, in the plainest form.

    Every hypothesis is a row of the batch. A finished one goes on with PAD.
    """
    batch, device = source.size(0), source.device
    with evaluating(model):
        memory = read(model, source).repeat_interleave(beam_size, dim=0)
        source = source.repeat_interleave(beam_size, dim=0)
        tokens = torch.full((batch * beam_size, 1), BOS, device=device)
        totals = torch.full((batch, beam_size), -math.inf, device=device)
        totals[:, 0] = 0.0  # all hypotheses start alike: one of them counts
        for _ in range(max_length):
            finished = (tokens == EOS).any(dim=1)
            if finished.all():
                break
            scores = next_scores(model, tokens, memory, source)
            scores[finished] = -math.inf
            scores[finished, PAD] = 0.0
            scores = totals[:, :, None] + scores.view(batch, beam_size, -1)
            lengths = (tokens[:, 1:] != PAD).sum(dim=1) + ~finished
            penalties = ((5 + lengths) / 6) ** length_penalty
            ranked = scores / penalties.view(batch, beam_size, 1)
            best = ranked.flatten(1).topk(beam_size).indices
            totals = scores.flatten(1).gather(1, best)
            vocabulary = scores.size(2)
            first = torch.arange(batch, device=device)[:, None] * beam_size
            rows, token = (first + best // vocabulary).flatten(), best % vocabulary
            tokens = torch.cat([tokens[rows], token.view(-1, 1)], dim=1)
        lengths = (tokens[:, 1:] != PAD).sum(dim=1)
        ranked = totals / (((5 + lengths) / 6) ** length_penalty).view(batch, -1)
        rows = torch.arange(batch, device=device) * beam_size + ranked.argmax(dim=1)
    return tokens[rows, 1:]
