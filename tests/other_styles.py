"""Right answers to exercises, as other people write them (lessons 05 to 19)."""

import heapq
import itertools
import statistics

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from helpers import BOS, EOS, PAD
from helpers.attention import MultiHeadAttention, attention
from helpers.batching import bucketed_batches
from helpers.caching import AttentionCache
from helpers.decoder import Decoder
from helpers.encoder import Encoder, EncoderLayer
from helpers.layers import FeedForward, LayerNorm, Residual
from helpers.modern.block import ModernBlock
from helpers.modern.norm import RMSNorm
from helpers.modern.rotary import rotary_angles
from helpers.positions import PositionalEncoding, TokenEmbedding
from helpers.training import cosine_rate, train
from lessons.lesson13.bootstrap import bleu_of
from lessons.lesson13.byte_pairs import spaced_words


class Clamped(nn.Module):
    """A feed-forward network without `relu`."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.contract, self.expand = nn.Linear(d_ff, d_model), nn.Linear(d_model, d_ff)

    def forward(self, x):
        return self.contract(self.expand(x).clamp(min=0))


class BySquares(nn.Module):
    """A layer norm without `var`."""

    def __init__(self, d_model, *, eps=1e-5):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.gain = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        root = torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps)
        return x * root * self.gain + self.bias


class OwnDropout(nn.Module):
    """A residual connection that drops out by hand."""

    def __init__(self, d_model, *, dropout, norm_first):
        super().__init__()
        self.norm, self.p, self.first = LayerNorm(d_model), dropout, norm_first

    def forward(self, x, sublayer):
        y = sublayer(self.norm(x) if self.first else x)
        if self.training:
            y = y * (torch.rand_like(y) > self.p) / (1 - self.p)
        return x + y if self.first else self.norm(x + y)


class SpeltOut(nn.Module):
    """An encoder layer that uses the residuals' parts."""

    def __init__(self, sizes):
        super().__init__()
        share = {"dropout": sizes.dropout, "norm_first": sizes.norm_first}
        halves = [Residual(sizes.d_model, **share) for _ in "ab"]
        self.residuals = nn.ModuleList(halves)
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.self_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)

    def forward(self, x, mask=None):
        steps = (lambda y: self.self_attention(y, y, y, mask)), self.feed_forward
        for half, do in zip(self.residuals, steps, strict=True):
            if half.norm_first:
                x = x + half.dropout(do(half.norm(x)))
            else:
                x = half.norm(x + half.dropout(do(x)))
        return x


class ByIndex(nn.Module):
    """An encoder that counts its layers."""

    def __init__(self, n_layers, sizes):
        super().__init__()
        self.layers = nn.Sequential(*[EncoderLayer(sizes) for _ in range(n_layers)])
        self.norm = LayerNorm(sizes.d_model) if sizes.norm_first else None

    def forward(self, x, mask=None):
        for i in range(len(self.layers)):
            x = self.layers[i](x, mask)
        return x if self.norm is None else self.norm(x)


class ByName(nn.Module):
    """A decoder layer that names its arguments, and makes its parts backwards."""

    def __init__(self, sizes):
        super().__init__()
        share = {"dropout": sizes.dropout, "norm_first": sizes.norm_first}
        self.residuals = nn.ModuleList()
        for _ in range(3):
            self.residuals.append(Residual(sizes.d_model, **share))
        self.feed_forward = FeedForward(sizes.d_model, sizes.d_ff)
        self.cross_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)
        self.self_attention = MultiHeadAttention(sizes.d_model, sizes.n_heads)

    def forward(self, x, memory, mask=None, memory_mask=None):
        def back(y):
            return self.self_attention(query=y, key=y, value=y, mask=mask)

        def across(y):
            return self.cross_attention(y, key=memory, value=memory, mask=memory_mask)

        steps = back, across, self.feed_forward
        for step, residual in zip(steps, self.residuals, strict=True):
            x = residual(x, step)
        return x


class Recursive(nn.Module):
    """A decoder that calls itself for the next layer."""

    def __init__(self, n_layers, sizes):
        super().__init__()
        self.layers = nn.ModuleList([ByName(sizes) for _ in range(n_layers)])
        if sizes.norm_first:
            self.norm = LayerNorm(sizes.d_model)

    def forward(self, x, memory, mask=None, memory_mask=None, i=0):
        if i == len(self.layers):
            return self.norm(x) if hasattr(self, "norm") else x
        x = self.layers[i](x, memory, mask, memory_mask)
        return self(x, memory, mask, memory_mask, i + 1)


def row_by_row(model, source, *, max_length):
    rows = []
    for one in source.split(1):
        row = [BOS]
        while len(row) <= max_length and row[-1:] != [EOS]:
            memory = model.encode(one)
            logits = model.project(model.decode(torch.tensor([row]), memory, one))
            row.append(int(logits[0, -1].softmax(0).argmax()))
        rows.append(torch.tensor(row[1:]))
    return nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)


class ProjectionFirst(nn.Module):
    """A Transformer with its own masks, whose parts come in another order."""

    def __init__(self, config):
        super().__init__()
        self.config, sizes = config, config.layer_sizes()
        self.projection = nn.Linear(config.d_model, config.target_vocab, bias=False)
        nn.init.uniform_(self.projection.weight, -0.03, 0.03)
        self.decoder = Decoder(config.n_layers, sizes)
        self.encoder = Encoder(config.n_layers, sizes)
        self.positions = PositionalEncoding(
            config.d_model, dropout=config.dropout, max_length=config.max_length
        )
        self.target_embedding = TokenEmbedding(config.target_vocab, config.d_model)
        self.source_embedding = TokenEmbedding(config.source_vocab, config.d_model)
        if config.share_embeddings:
            for part in (self.target_embedding, self.projection):
                part.weight = self.source_embedding.weight

    def encode(self, tokens):
        hidden = (tokens != PAD)[:, None, None]
        return self.encoder(self.positions(self.source_embedding(tokens)), hidden)

    def decode(self, tokens, memory, source):
        seen = torch.ones(2 * tokens.shape[-1:], dtype=torch.bool).tril()
        seen = seen & (tokens != PAD)[:, None, None]
        x = self.positions(self.target_embedding(tokens))
        return self.decoder(x, memory, seen, (source != PAD)[:, None, None])

    def project(self, states):
        return states @ self.projection.weight.T

    def forward(self, source, target):
        memory = self.encode(source)
        return self.project(self.decode(target, memory, source))


def tensor_by_tensor(model, batches, rate, watch=None):
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), 0, (0.9, 0.98), 1e-9)
    losses = [0.0] * len(batches)
    for i in range(len(batches)):
        source, target = (x.to(device) for x in (batches[i].source, batches[i].target))
        optimizer.param_groups[0].update(lr=rate(i + 1))
        logits = model.train()(source, target[:, :-1]).flatten(0, 1)
        wanted = target[:, 1:].flatten()
        each = nn.functional.cross_entropy(logits, wanted, reduction="none")
        loss = each[wanted != PAD].sum() / wanted.count_nonzero()
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*model.parameters()], max_norm=1.0)
        optimizer.step()
        losses[i] = loss.item()
        (watch or (lambda step: None))(i + 1)
    return losses


def by_scheduler(model, batches, rate, watch=None):
    options = {"lr": 1.0, "betas": (0.9, 0.98), "eps": 1e-9}
    optimizer = torch.optim.Adam(model.parameters(), **options)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda i: rate(i + 1))
    losses = []
    model.train()
    for step, batch in enumerate(batches, 1):
        batch = batch.to(next(model.parameters()).device)
        logits, real = model(batch.source, batch.decoder_input), batch.labels != PAD
        logs = logits.log_softmax(-1).gather(-1, batch.labels[..., None])[..., 0]
        loss = -logs[real].mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        schedule.step()
        losses.append(loss.detach())
        if watch:
            watch(step)
    return losses


@torch.no_grad()
def in_one_line(layer, x, past, source, memory_mask=None):
    own, other = layer.self_attention, layer.cross_attention
    first, second, third = layer.residuals
    x = first(x, lambda y: own.attend(y, *past.extend(*own.project(y, y))))
    x = second(x, lambda y: other.attend(y, source.keys, source.values, memory_mask))
    return third(x, lambda y: layer.feed_forward(y))


def with_a_heap(next_scores, beam_size, max_length):
    beam = [(0.0, ())]
    for _ in range(max_length):
        new = [one for one in beam if one[1][-1:] == (EOS,)]
        for total, ids in beam:
            if ids[-1:] != (EOS,):
                scores = next_scores(list(ids)).tolist()
                new += [(total + s, (*ids, i)) for i, s in enumerate(scores)]
        beam = heapq.nlargest(beam_size, new)
    return torch.tensor(beam[0][1])


def batch_by_batch(model, pairs, epochs, peak, watch=None):
    chance = torch.Generator()
    chance.manual_seed(0)
    parts = (
        bucketed_batches(pairs, tokens_per_batch=1024, generator=chance)
        for _ in range(epochs)
    )
    batches = [*itertools.chain.from_iterable(parts)]
    shares = [number / len(batches) for number in range(len(batches) + 1)]
    return train(
        model,
        iter(batches),
        lambda step: cosine_rate(shares[step], peak=peak, warmup=0.1),
        watch=watch,
    )


def with_where(model, source, donor, level, place):
    hidden = (source != PAD)[:, None, None]
    here = torch.isin(torch.arange(source.shape[1]), torch.tensor(place))[:, None]
    both = [model.positions(model.source_embedding(ids)) for ids in (source, donor)]
    for number, layer in enumerate([*model.encoder.layers, None]):
        if number == level:
            both[0] = torch.where(here, both[1], both[0])
        if layer is not None:
            both = [layer(x, hidden) for x in both]
    return model.encoder.norm(both[0])


def with_masks(run, memory, donor):
    length, best = memory.shape[1], None
    for number in range(1, 2**length):
        chosen = torch.tensor([bool(number >> i & 1) for i in range(length)])
        said = run(torch.where(chosen[None, :, None], donor, memory))
        share = (said == run(donor)).float().mean()
        key = (-int(chosen.sum()), float(share))
        if share > 0.9 and (best is None or key > best[0]):
            best = key, chosen.nonzero().flatten()
    return best[1]


class OfStrings:
    """A tokenizer whose pieces are strings of one letter for each byte."""

    def __init__(self, merges):
        self.merges = merges
        joined = (left + right for left, right in merges)
        self.pieces = [*map(chr, range(256)), *joined]

    @classmethod
    def train(cls, texts, *, vocab_size):
        words = [cls.letters(word) for text in texts for word in spaced_words(text)]
        merges = []
        for _ in range(vocab_size - 260):
            pairs = [pair for word in words for pair in itertools.pairwise(word)]
            if pairs:
                merges.append(statistics.mode(pairs))
                words = [cls.join(word, *merges[-1]) for word in words]
        return cls(merges)

    @staticmethod
    def letters(word):
        return list(word.encode().decode("latin-1"))

    @staticmethod
    def join(word, left, right):
        i = 0
        while i + 1 < len(word):
            if word[i : i + 2] == [left, right]:
                word = [*word[:i], left + right, *word[i + 2 :]]
            i += 1
        return word

    def __len__(self):
        return 4 + len(self.pieces)

    def encode(self, text):
        ids = []
        for word in map(self.letters, spaced_words(text)):
            for pair in self.merges:
                word = self.join(word, *pair)
            ids += [4 + self.pieces.index(piece) for piece in word]
        return torch.tensor(ids)

    def decode(self, ids):
        letters = "".join(self.pieces[i - 4] for i in ids if i >= 4)
        return letters.encode("latin-1").decode(errors="replace")[1:]


def divided_in_backward(model, batches):
    total, tokens = torch.zeros(()), sum(x.labels.ne(PAD).sum() for x in batches)
    for batch in batches:
        logits = model(batch.source, batch.decoder_input).transpose(1, 2)
        own = F.cross_entropy(logits, batch.labels, ignore_index=PAD, reduction="sum")
        own.backward(1 / tokens)
        total = total + own.detach()
    return total / tokens


def in_its_own_memory(tensor, rank, count, exchange):
    pieces, place = tensor.split(len(tensor) // count), rank
    for step in range(2 * count - 2):
        came = exchange(pieces[place])
        place = (place - 1) % count
        pieces[place].copy_(came + pieces[place] if step < count - 1 else came)
    return tensor


@torch.no_grad()
def with_one_memory(model, source, target):
    """Steps that encode the source once, and grow a tensor."""
    memory, found = model.encode(source), []
    for n in range(target.shape[1]):
        states = model.decode(target[:, : n + 1], memory, source)
        found += [model.project(states)[:, n:]]
    return torch.cat(found, 1)


def by_numpy(ours, theirs, draws):
    scores = [bleu_of(counts[draws].sum(dim=1)) for counts in (ours, theirs)]
    apart = (scores[0] - scores[1]).numpy()
    return np.quantile(apart, [0.025, 0.975], method="nearest")


def by_complex_numbers(x, angles):
    pairs = torch.complex(*x.unflatten(-1, (2, -1)).unbind(-2))
    turned = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], dim=-1)


class InAList(nn.Module):
    """A block that runs through its sublayers in a loop, with PyTorch's norm."""

    def __init__(self, *sizes):
        super().__init__()
        made = ModernBlock(*sizes)
        self.feed_forward, self.attention = made.feed_forward, made.attention
        for name in ("attention_norm", "feed_forward_norm"):
            gain = nn.Parameter(torch.ones(sizes[0]))
            setattr(self, name, nn.ParameterDict({"gain": gain}))

    def forward(self, x, angles=None, mask=None, *, cache=None):
        for name in ("attention", "feed_forward"):
            gain = getattr(self, f"{name}_norm")["gain"]
            given = [angles, mask] if name == "attention" else []
            named = {"cache": cache} if name == "attention" else {}
            y = F.rms_norm(x, gain.shape, gain, 1e-5)
            x = getattr(self, name)(y, *given, **named) + x
        return x


def key_by_key(mixed, total, maximum, scores, value):
    for score, one in zip(scores.unbind(-1), value.unbind(-2), strict=True):
        new = torch.maximum(maximum, score[..., None]).detach()
        safe = torch.where(new.isinf(), 0.0, new)
        factor, part = torch.exp(maximum - safe), torch.exp(score[..., None] - safe)
        mixed, total = factor * mixed + part * one[..., None, :], factor * total + part
        maximum = new
    return [mixed, total, maximum]


def in_two_passes(query, key, value, mask=None, block=64):
    mask = torch.ones(1, dtype=torch.bool) if mask is None else mask
    mask = mask.expand(*query.shape[:-1], key.size(-2)).split(block, dim=-1)

    def scores(keys, seen):
        found = torch.einsum("bhqd,bhkd->bhqk", query, keys) * query.size(-1) ** -0.5
        return torch.where(seen, found, -1e30)

    keys, logsum, context = key.split(block, dim=-2), torch.tensor(-1e30), 0
    for part, seen in zip(keys, mask, strict=True):
        logsum = torch.logaddexp(logsum, scores(part, seen).logsumexp(-1, keepdim=True))
    for part, seen, few in zip(keys, mask, value.split(block, dim=-2), strict=True):
        context = context + ((scores(part, seen) - logsum).exp() * seen) @ few
    return context


class HeadsInALoop(nn.Module):
    """D's attention, a head after the other."""

    def __init__(self, model_dim, num_heads, dropout=0.0):
        super().__init__()
        for name in ("linear_q", "linear_k", "linear_v", "linear_final"):
            setattr(self, name, nn.Linear(model_dim, model_dim))
        self.layer_norm, self.dropout = nn.LayerNorm(model_dim), nn.Dropout(dropout)
        self.heads = num_heads

    def forward(self, key, value, query, attn_mask=None):
        parts = self.linear_q(query), self.linear_k(key), self.linear_v(value)
        heads = zip(*(part.chunk(self.heads, dim=-1) for part in parts), strict=True)
        mask = None if attn_mask is None else ~attn_mask
        heads = [(attention(q, k, v, mask)[1], v) for q, k, v in heads]
        weights = [self.dropout(weight) for weight, _ in heads]
        contexts = [weight @ v for weight, (_, v) in zip(weights, heads, strict=True)]
        output = self.dropout(self.linear_final(torch.cat(contexts, dim=-1)))
        return self.layer_norm(query + output), torch.stack(weights, 1).flatten(0, 1)


class Sequenced(nn.Module):
    """A language model that loops by index, and makes angles and mask as it goes."""

    def __init__(self, config):
        super().__init__()
        self.config = c = config
        self.projection = nn.Linear(c.d_model, c.vocab_size, bias=False)
        self.blocks, self.norm = nn.ModuleList(), RMSNorm(c.d_model)
        for _ in range(c.n_layers):
            self.blocks += [ModernBlock(c.d_model, c.n_heads, c.n_kv_heads, c.d_ff)]
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        for name, weight in self.named_parameters():
            if "norm" not in name:
                weight.data = 0.02 * torch.randn(weight.shape)

    def forward(self, tokens, caches=None):
        length, before = tokens.shape[1], 0
        if caches is not None:
            before = len(caches[-1])
        every = torch.arange(before + length)
        d_head = self.config.d_model // self.config.n_heads
        angles = rotary_angles(len(every), d_head, base=self.config.rotary_base)
        x = F.embedding(tokens, self.embedding.weight)
        for i in range(len(self.blocks)):
            keep = {"cache": caches[i]} if caches is not None else {}
            mask = every[None] <= every[before:, None]
            x = self.blocks[i](x, angles[-length:], mask, **keep)
        return F.linear(self.norm(x), self.projection.weight)


def with_weights(logits, tokens, prompts):
    labels = torch.roll(tokens, -1, dims=1)
    each = F.cross_entropy(logits.float().mT, labels, reduction="none")
    places = torch.arange(1, tokens.shape[1] + 1).expand_as(tokens)
    inside = places < (tokens != PAD).sum(1, keepdim=True)
    weights = (inside & (places >= prompts[:, None])).float()
    return (each * weights).sum() / weights.sum()


def one_pass_more(model, prompt, max_new):
    caches = [AttentionCache() for _ in model.blocks]
    logits, row = model(prompt, caches), prompt[:, :0]
    for _ in range(max_new):
        token = logits[:, -1:].argmax(-1)
        row = torch.cat([row, token], 1)
        logits = model(token, caches)
        if token == EOS:
            break
    return row


RIGHT = [
    ("lesson08-transformer", ProjectionFirst),
    ("lesson05-feed_forward", Clamped),
    ("lesson05-layer_norm", BySquares),
    ("lesson05-residual", OwnDropout),
    ("lesson06-encoder_layer", SpeltOut),
    ("lesson06-encoder", ByIndex),
    ("lesson07-decoder_layer", ByName),
    ("lesson07-decoder", Recursive),
    ("lesson07-greedy_decode", row_by_row),
    ("lesson09-train", by_scheduler),
    ("lesson09-train", tensor_by_tensor),
    ("lesson10-run", batch_by_batch),
    ("lesson11-layer_step", in_one_line),
    ("lesson11-beam_search", with_a_heap),
    ("lesson12-patched_memory", with_where),
    ("lesson12-find_places", with_masks),
    ("lesson13-byte_pairs", OfStrings),
    ("lesson13-paired_interval", by_numpy),
    ("lesson14-accumulate", divided_in_backward),
    ("lesson14-ring_all_reduce", in_its_own_memory),
    ("lesson15-step_by_step", with_one_memory),
    ("lesson16-repaired_attention", HeadsInALoop),
    ("lesson17-rotate", by_complex_numbers),
    ("lesson17-modern_block", InAList),
    ("lesson19-absorb", key_by_key),
    ("lesson19-block_attention", in_two_passes),
    ("lesson18-language_model", Sequenced),
    ("lesson18-answer_loss", with_weights),
    ("lesson18-generate", one_pass_more),
]
