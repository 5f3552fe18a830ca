"""Faults from public bug reports and pull requests, in code of our own.

They were gathered by a search for kinds of faults (caches, beams, padding in front,
rotary halves, grouped queries, ALiBi, ties, dropout, labels, masks), and written down
before the checks were tried on them. Each docstring begins with its source on GitHub.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from faults.listing import fault
from faults.patching import become, wrap
from faults.small_cached import Cache
from faults.small_decoders import WIDTH, lower

GPT, ROTARY, ALIBI = "cached GPT", "cached rotary", "cached ALiBi"
EINSUM, PLAIN, LLAMA, TIED = "einsum", "plain GPT", "small Llama", "small GPT"
BLOCKS = "blocks.0.attn"


def of_each(model: nn.Module, **methods) -> None:
    """These methods in every attention of a cached model."""
    for block in model.blocks:
        become(block.attn, **methods)


# --- Positions and caches, step by step -----------------------------------------------


@fault("angles kept for a length, whatever the offset", ROTARY, BLOCKS, "position kept")
def angles_without_offset(model: nn.Module) -> None:
    """lucidrains/rotary-embedding-torch#11: the table's key lacks the offset."""
    kept = {}

    def turn(self: nn.Module, x: Tensor, places: Tensor) -> Tensor:
        shape = tuple(places.shape)
        places = kept.setdefault(shape, places).to(places.device)
        return type(self).__mro__[1].turn(self, x, places)

    of_each(model, turn=turn)


@fault("the prompt counts twice", ROTARY, "- blocks.0", "position")
def prompt_counts_twice(model: nn.Module) -> None:
    """skyzh/tiny-llm#46: the offset grows by the prompt's length at the first step."""

    def places(self: nn.Module, words: Tensor, length: int) -> Tensor:
        found = type(self).__mro__[1].places(self, words, length)
        late = 3 if length < words.size(1) else 0
        return torch.cat([found[:, :-length], found[:, -length:] + late], 1)

    become(model, places=places)


@fault("upper layers count a token too many", ROTARY, "blocks.1.attn", "position")
def counted_too_early(model: nn.Module) -> None:
    """fla-org/flash-linear-attention#766: the first layer moves the shared count on."""

    def turn(self: nn.Module, x: Tensor, places: Tensor) -> Tensor:
        return type(self).__mro__[1].turn(self, x, places + (places.size(1) == 1))

    become(model.blocks[1].attn, turn=turn)


@fault("queries turned behind their keys", ROTARY, BLOCKS, "position")
def query_after_update(model: nn.Module) -> None:
    """ml-explore/mlx-lm#1806: the offset is read after the cache has moved it on."""

    def turned(self: nn.Module, q: Tensor, k: Tensor, places: Tensor) -> list[Tensor]:
        late = places.size(1) == 1
        return [self.turn(q, places + late), self.turn(k, places)]

    of_each(model, turned=turned)


@fault("kept keys are turned again", ROTARY, BLOCKS, "position cache")
def turned_again(model: nn.Module) -> None:
    """NeuraLegion/shainet#110, a review: turned when kept, and again when read."""

    class Turned(Cache):
        def extend(self, layer: int, key: Tensor, value: Tensor) -> list[Tensor]:
            key, value = super().extend(layer, key, value)
            places = torch.arange(key.size(2)).expand(len(key), -1)
            return [model.blocks[layer].attn.turn(key, places), value]

    model.start = Turned


@fault("no position for a single token", GPT, "-", "position")
def single_without_place(model: nn.Module) -> None:
    """ml-explore/mlx-lm#93: `if hidden_states.shape[1] > 1` before adding them."""

    def begin(self: nn.Module, tokens: Tensor, now: Tensor) -> Tensor:
        return self.wte(tokens) + (tokens.size(1) > 1) * self.wpe(now)

    become(model, begin=begin)


@fault("a single query sees the first key alone", GPT, BLOCKS, "mask")
def top_left(model: nn.Module) -> None:
    """pytorch/pytorch#144858, google/flax#5591: `is_causal` starts at the top left."""

    def seen(self: nn.Module, length: int, words: Tensor) -> Tensor:
        ones = torch.ones(length, words.size(1), dtype=torch.bool, device=words.device)
        return ones.tril() & words[:, None, None]

    of_each(model, seen=seen)


@fault("no causal mask for a prompt with a cache", GPT, BLOCKS, "mask")
def open_prompt(model: nn.Module) -> None:
    """Mikyx-1/TinyLLM#17: the mask is only made `if cache is None`."""

    def forward(self: nn.Module, x: Tensor, places, words, cache=None) -> Tensor:
        self.open = cache is not None
        return type(self).__mro__[1].forward(self, x, places, words, cache)

    def seen(self: nn.Module, length: int, words: Tensor) -> Tensor:
        mask = type(self).__mro__[1].seen(self, length, words)
        return words[:, None, None].expand_as(mask) if self.open else mask

    of_each(model, forward=forward, seen=seen)


@fault("no window in the steps", ALIBI, BLOCKS, "mask")
def steps_without_window(model: nn.Module) -> None:
    """goombalab/hnet#21: the kernel for steps is not told the window."""

    def seen(self: nn.Module, length: int, words: Tensor) -> Tensor:
        self.window = 7 if length == words.size(1) else 64
        return type(self).__mro__[1].seen(self, length, words)

    of_each(model, seen=seen)


@fault("ALiBi over the new tokens alone", ALIBI, BLOCKS, "position")
def alibi_of_queries(model: nn.Module) -> None:
    """keras-team/keras-hub#2861: of one query it is (1, 1), and nothing but 0."""

    def bias(self: nn.Module, now: Tensor, places: Tensor) -> Tensor:
        return (
            type(self).__mro__[1].bias(self, now, now if now.size(1) == 1 else places)
        )

    of_each(model, bias=bias)


@fault("a hole behind the prompt", GPT, BLOCKS, "cache")
def hole_in_cache(model: nn.Module) -> None:
    """microsoft/onnxruntime-genai#2354: written a place too far; the hole is seen."""

    class Holed(Cache):
        def note(self, words: Tensor) -> Tensor:
            before = self.words
            hole = before is not None and before.size(1) == 3
            super().note(torch.cat([words, words], 1) if hole else words)
            return self.words

        def extend(self, layer: int, key: Tensor, value: Tensor) -> list[Tensor]:
            if layer in self.layers and self.layers[layer][0].size(2) == 3:
                super().extend(layer, 0 * key, 0 * value)
            return super().extend(layer, key, value)

    model.start = Holed
    model.places = lambda words, length: (
        words.cumsum(1) - 1 - int(length < words.size(1))
    ).clamp(min=0)


@fault("beams reordered, the cache not", GPT, "-", "beam reorder")
def cache_not_reordered(model: nn.Module) -> None:
    """huggingface/transformers#46612: skipped if the cache has another name."""

    class Fixed(Cache):
        def reorder(self, rows: Tensor) -> None:
            self.words = self.words[rows]

    model.start = Fixed


# --- Padding in front, and all-hidden rows --------------------------------------------


@fault("learned positions count the padding in front", GPT, "-", "position")
def places_from_row_start(model: nn.Module) -> None:
    """ndif-team/nnsight#673: no `position_ids` for a batch padded in front."""

    def places(self: nn.Module, words: Tensor, length: int) -> Tensor:
        return torch.ones_like(words).cumsum(1) - 1

    become(model, places=places)


@fault("steps share their positions, padded in front or not", GPT, "-", "position")
def places_of_cache(model: nn.Module) -> None:
    """unslothai/unsloth#3699: `position_ids = cache_position`, one for all rows."""

    def places(self: nn.Module, words: Tensor, length: int) -> Tensor:
        if length == words.size(1):
            return type(self).__mro__[1].places(self, words, length)
        return torch.ones_like(words).cumsum(1) - 1

    become(model, places=places)


@fault("the decoder's own padding is seen", GPT, BLOCKS, "padding")
def own_padding_seen(model: nn.Module) -> None:
    """facebookresearch/fairseq#537: no `key_padding_mask` for PADs in front."""

    def seen(self: nn.Module, length: int, words: Tensor) -> Tensor:
        everything = torch.ones_like(words)
        return type(self).__mro__[1].seen(self, length, everything)

    of_each(model, seen=seen)


@fault("NaN where all of the source is hidden", EINSUM, "decoder.0.cross_att", "NaN")
def cross_of_nothing(model: nn.Module) -> None:
    """lucidrains/x-transformers#263: a softmax over nothing but -inf."""
    for layer in model.decoder:
        layer.cross_att.weigh = lambda scores, seen: scores.masked_fill(
            ~seen, -torch.inf
        ).softmax(-1)


@fault("the source's mask set to None", EINSUM, "decoder.0.cross_att", "padding")
def source_mask_lost(model: nn.Module) -> None:
    """huggingface/transformers#47946: `encoder_attention_mask = None` in GPT-2."""
    for layer in model.decoder:
        become(layer, read=lambda self, x, m, w: x + self.cross_att(
            self.norms[1](x), m, torch.ones_like(w)))  # fmt: skip


@fault("the mask hides queries, not keys", EINSUM, "encoder.0.att", "padding")
def queries_hidden(model: nn.Module) -> None:
    """hyunwoongko/transformer#40: `unsqueeze(1).unsqueeze(3)`."""
    for layer in model.encoder:
        wrap(layer.att, lambda inner, x, memory, seen: inner(x, memory, seen.mT))


@fault("a causal mask in the cross-attention", EINSUM, "decoder.0.cross_att", "mask")
def causal_source(model: nn.Module) -> None:
    """NVIDIA/TransformerEngine#629: the window of the self-attention is handed on."""
    for layer in model.decoder:

        def weigh(self: nn.Module, scores: Tensor, seen: Tensor) -> Tensor:
            early = torch.ones_like(scores[:1, :1], dtype=torch.bool).tril()
            return type(self).__mro__[1].weigh(self, scores, seen & early)

        become(layer.cross_att, weigh=weigh)


# --- Rotary halves, grouped queries, ALiBi's slopes, tables ---------------------------


@fault("halves turned by the angles of pairs", ROTARY, BLOCKS, "position")
def halves_for_pairs(model: nn.Module) -> None:
    """raiyanyahya/how-to-train-your-gpt#6: `rotate_half` with interleaved angles."""

    def halves(self: nn.Module, x: Tensor) -> Tensor:
        one, two = x.chunk(2, -1)
        return torch.cat([-two, one], -1)

    of_each(model, halves=halves)


@fault(
    "grouped heads tiled",
    ROTARY,
    BLOCKS,
    "head",
    "heads that are dealt out in another order are as good with weights of their own",
)
def heads_tiled(model: nn.Module) -> None:
    """onnx/onnx#7274: `Tile` for `repeat_interleave`."""
    of_each(model, repeat=lambda self, x: x.repeat(1, 2, 1, 1))


@fault("places repeated for heads", LLAMA, "layers.0.attn", "mask")
def places_repeated(model: nn.Module) -> None:
    """PrimeIntellect-ai/prime-rl#2681, a review: repeated along the length."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        query, key, value = self.project(x)
        key, value = self.rotary(key), value
        key, value = (t.repeat_interleave(2, 2) for t in (key, value))
        options = {"is_causal": True, "enable_gqa": True}
        mixed = F.scaled_dot_product_attention(
            self.rotary(query), key, value, **options
        )
        return self.output(mixed.transpose(1, 2).flatten(2))

    for layer in model.layers:
        become(layer.attn, forward=forward)


@fault(
    "ALiBi's slopes begin at one",
    ALIBI,
    BLOCKS,
    "slope",
    "slopes of any size leave a sound model: only a table of the meant ones tells",
)
def slopes_from_one(model: nn.Module) -> None:
    """paiml/aprender#2143: 2^(-8h/n) counted from h = 0."""
    for block in model.blocks:
        block.attn.slopes = block.attn.slopes * 4


@fault("one place for all", EINSUM, "- source", "position")
def one_place(model: nn.Module) -> None:
    """DiffPoseTalk/DiffPoseTalk#20: `pe[:, n]` for `pe[:, :n]`."""

    def encode(self: nn.Module, tokens: Tensor) -> Tensor:
        x = self.source(tokens) + self.table[tokens.size(1)]
        for layer in self.encoder:
            x = layer(x, self.words(tokens))
        return self.norms[0](x)

    become(model, encode=encode)


@fault("a place that is never learnt", GPT, "wpe", "padding_idx")
def place_of_padding(model: nn.Module) -> None:
    """huggingface/transformers#10200: positions made with the words' `padding_idx`."""
    model.wpe = nn.Embedding(64, WIDTH, padding_idx=1)


# --- Residuals, masks that are kept, dropout ------------------------------------------


@fault("twice what the attention says", TIED, "blocks.1.attn", "residual")
def doubled(model: nn.Module) -> None:
    """kyegomez/BitNet#32: `x = attn(x); x = x + x`."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        x = 2 * self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))

    become(model.blocks[1], forward=forward)


@fault("the second sum adds the layer's input", PLAIN, "body.1", "residual")
def first_input_again(model: nn.Module) -> None:
    """strutive07/transformer-tensorflow2.0#14, norm last."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return self.n2(x + self.feed(self.n1(x + self.mix(x))))

    become(model.body[1], forward=forward)


@fault("the mask of the first length", PLAIN, "body.0 body.1", "mask kept")
def first_mask(model: nn.Module) -> None:
    """facebookresearch/xformers#655: made once, for the first batch's length."""
    kept = []

    def weigh(self: nn.Module, scores: Tensor) -> Tensor:
        kept.append(lower(scores.size(-1), scores.device))
        hidden = ~kept[0].to(scores.device)
        return scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1)

    for block in model.body:
        become(block, weigh=weigh)


@fault("dropout in the fused attention", TIED, "blocks.0.attn", "dropout")
def fused_dropout(model: nn.Module) -> None:
    """huggingface/pytorch-image-models#1978, karpathy/nanoGPT#240: `dropout_p=p`."""

    def attend(self: nn.Module, *parts: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*parts, dropout_p=self.p, is_causal=True)

    for block in model.blocks:
        become(block.attn, attend=attend)


# --- Weights that are loaded, and labels ----------------------------------------------


@fault("loading unties", TIED, "wte projection", "tie")
def loading_unties(model: nn.Module) -> None:
    """huggingface/accelerate#1204, TransformerLensOrg/TransformerLens#1725."""

    def load_state_dict(self: nn.Module, state: dict, *given, **named):
        for name, weight in state.items():
            owner, _, own = name.rpartition(".")
            setattr(self.get_submodule(owner), own, nn.Parameter(weight.clone()))

    become(model, load_state_dict=load_state_dict)


@fault("the loss shifts what is shifted", GPT, "-", "shifted twice")
def shifted_twice(model: nn.Module) -> None:
    """huggingface/transformers#37830, JetMoe: the next token but one is learnt."""

    def loss(self: nn.Module, tokens: Tensor) -> Tensor:
        logits = self(tokens)[:, :-2]
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 2:].flatten())

    become(model, loss=loss)


@fault("the loss shifts nothing", GPT, "-", "shifted own")
def not_shifted(model: nn.Module) -> None:
    """huggingface/transformers#3711, Transformer-XL: each token predicts itself."""

    def loss(self: nn.Module, tokens: Tensor) -> Tensor:
        return F.cross_entropy(self(tokens).flatten(0, 1), tokens.flatten())

    become(model, loss=loss)


@fault("the labels of a translation shifted again", EINSUM, "-", "shifted twice")
def labels_shifted_again(model: nn.Module) -> None:
    """huggingface/transformers#46898, Florence-2: the loss of a decoder shifts, too."""

    def loss(self: nn.Module, source: Tensor, target: Tensor) -> Tensor:
        logits = self(source, target[:, :-1])[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), target[:, 2:].flatten())

    become(model, loss=loss)
