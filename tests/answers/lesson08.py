"""Right answers to lesson 08's exercises in other styles, and wrong ones."""

import math

import numpy as np
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from helpers.masks import causal_mask, decoder_mask, padding_mask
from helpers.positions import TokenEmbedding
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson08.assembly import parameters

# ------------------------------------------------------------ 08.1 ids to logits


def by_the_model(parts, source, target):
    """The course's own Transformer with the numbers of these parts."""
    vocab, d_model = parts.projection.weight.shape
    config = TransformerConfig(
        *(vocab, vocab),
        **{"d_model": d_model, "n_heads": 2, "d_ff": 24, "n_layers": 2},
        dropout=0.0,
        share_embeddings=False,
    )
    numbers = dict(parts.named_parameters())
    return functional_call(Transformer(config), numbers, (source, target))


def embed(table, ids):
    return F.embedding(ids, table.weight) * table.weight.shape[1] ** 0.5


def with_own_masks(parts, source, target):
    hidden = (source != 0)[:, None, None]
    memory = parts["encoder"](
        parts["positions"](embed(parts["source_embedding"], source)), hidden
    )
    y = parts["positions"](embed(parts["target_embedding"], target))
    states = parts["decoder"](y, memory, causal_mask(target.size(1)), hidden)
    return states @ parts["projection"].weight.T


def sentence_by_sentence(parts, source, target):
    return torch.stack(
        [
            with_own_masks(parts, s[None], t[None])[0]
            for s, t in zip(source, target, strict=True)
        ]
    )


def with_layers_by_hand(parts, source, target):
    x = parts.positions(embed(parts.source_embedding, source))
    for layer in parts.encoder.layers:
        x = layer(x, padding_mask(source))
    y = parts.positions(embed(parts.target_embedding, target))
    for layer in parts.decoder.layers:
        y = layer(y, x, decoder_mask(target), padding_mask(source))
    return parts.projection(y)


def for_sixteen_features(parts, source, target):
    x = parts.positions(4 * parts.source_embedding(source))
    memory = parts.encoder(x, padding_mask(source))
    y = parts.positions(4 * parts.target_embedding(target))
    states = parts.decoder(y, memory, decoder_mask(target), padding_mask(source))
    return parts.projection(states)


def for_the_notebook(parts, source, target):
    x = parts.positions(math.sqrt(64) * parts.source_embedding(source))
    memory = parts.encoder(x, padding_mask(source))
    y = parts.positions(8 * parts.target_embedding(target))
    states = parts.decoder(y, memory, decoder_mask(target), padding_mask(source))
    return parts.projection(states)


def detached_memory(parts, source, target):
    x = parts.positions(embed(parts.source_embedding, source))
    memory = parts.encoder(x, padding_mask(source)).detach()
    y = parts.positions(embed(parts.target_embedding, target))
    states = parts.decoder(y, memory, decoder_mask(target), padding_mask(source))
    return parts.projection(states)


def shifted_already(parts, source, target):
    return with_own_masks(parts, source, target[:, :-1])


def scales_in_place(parts, source, target):
    for side in (parts.source_embedding, parts.target_embedding):
        side.weight.data.mul_(math.sqrt(side.embedding_dim))
    x = parts.positions(parts.source_embedding(source))
    memory = parts.encoder(x, padding_mask(source))
    y = parts.positions(parts.target_embedding(target))
    states = parts.decoder(y, memory, decoder_mask(target), padding_mask(source))
    return parts.projection(states)


def the_first_layers_only(parts, source, target):
    x = parts.positions(embed(parts.source_embedding, source))
    memory = parts.encoder.layers[0](x, padding_mask(source))
    y = parts.positions(embed(parts.target_embedding, target))
    mask, memory_mask = decoder_mask(target), padding_mask(source)
    return parts.projection(parts.decoder.layers[0](y, memory, mask, memory_mask))


def the_mask_of_the_first_sentence(parts, source, target):
    hidden = padding_mask(source[:1])
    memory = parts.encoder(parts.positions(embed(parts.source_embedding, source)))
    y = parts.positions(embed(parts.target_embedding, target))
    return parts.projection(parts.decoder(y, memory, decoder_mask(target), hidden))


def zeroed_memory(parts, source, target):
    x = parts.positions(embed(parts.source_embedding, source))
    memory = parts.encoder(x, padding_mask(source)) * (source != 0)[..., None]
    y = parts.positions(embed(parts.target_embedding, target))
    return parts.projection(parts.decoder(y, memory, decoder_mask(target)))


def hides_special_tokens(parts, source, target):
    x = parts.positions(embed(parts.source_embedding, source))
    real = (source > 3)[:, None, None]
    y = parts.positions(embed(parts.target_embedding, target))
    memory = parts.encoder(x, padding_mask(source))
    return parts.projection(parts.decoder(y, memory, decoder_mask(target), real))


def unprojected_numpy(parts, source, target):
    return with_own_masks(parts, source, target).detach().numpy()


# ------------------------------------------------------------------ 08.2 tying


def tie_modules(parts):
    parts["target_embedding"] = parts["source_embedding"]
    parts["projection"].weight = parts["target_embedding"].weight
    return parts


def tie_by_register(parts):
    for name in ("source_embedding", "projection"):
        parts[name].register_parameter("weight", parts.target_embedding.weight)
    return parts


def tie_to_projection(parts):
    shared = nn.Parameter(parts.projection.weight.detach().clone())
    for name in ("source_embedding", "target_embedding", "projection"):
        setattr(parts[name], "weight", shared)  # noqa: B010
    return parts


def tie_frozen(parts):
    parts.source_embedding.weight.requires_grad_(False)
    return tie_modules(parts)


def tie_to_zeros(parts):
    parts.source_embedding.weight = nn.Parameter(
        torch.zeros_like(parts.projection.weight)
    )
    return tie_modules(parts)


def tie_and_empty_the_encoder(parts):
    with torch.no_grad():
        for parameter in parts.encoder.parameters():
            parameter.zero_()
    return tie_modules(parts)


def tie_and_freeze_the_encoder(parts):
    parts.encoder.requires_grad_(False)
    return tie_modules(parts)


def tie_for_one_step(parts):
    parts.target_embedding.weight = parts.source_embedding.weight
    parts.projection.weight.data = parts.source_embedding.weight.data
    return parts


def tie_the_modules(parts):
    for name in ("target_embedding", "projection"):
        parts[name] = parts.source_embedding
    return parts


def tie_scaling_embeddings(parts):
    table = TokenEmbedding(*parts.source_embedding.weight.shape)
    table.weight = parts.projection.weight
    parts["source_embedding"] = parts["target_embedding"] = table
    return parts


def tie_without_a_row_for_padding(parts):
    shared = tie_modules(parts).projection.weight
    parts["source_embedding"] = nn.Embedding(*shared.shape, padding_idx=0)
    parts["target_embedding"] = parts["source_embedding"]
    parts.source_embedding.weight = shared
    return parts


def tie_and_remove_the_positions(parts):
    parts["positions"] = nn.Identity()
    return tie_modules(parts)


def tie_with_dropout(parts):
    for module in parts.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.5
    return tie_modules(parts)


def forgets_to_return(parts):
    parts.projection.weight = parts.source_embedding.weight
    parts.target_embedding.weight = parts.source_embedding.weight


def loses_a_part(parts):
    tie_modules(parts)
    del parts["encoder"]
    return parts


# --------------------------------------------------------------- 08.3 counting


def by_names(config):
    return sum(parameters(config).values())


def layer_by_layer(config):
    d, hidden, count = config.d_model, config.d_ff, 0
    shapes = [(d, d), (d,)] * 12 + [(d, hidden), (hidden,), (hidden, d), (d,)] * 2
    for _ in range(config.n_layers):
        count += sum(math.prod(shape) for shape in [*shapes, *[(d,)] * 10])
    count += 4 * d * config.norm_first
    tables = [config.source_vocab, config.target_vocab, config.target_vocab]
    return count + d * sum(tables[:1] if config.share_embeddings else tables)


def builds_a_model(config):
    with torch.device("meta"):
        model = Transformer(config)
    return sum(parameter.numel() for parameter in model.parameters())


def as_float(config):
    return float(by_names(config))


def as_numpy(config):
    return np.int64(by_names(config))


def all_parameters_twice(config):
    return 2 * int(by_names(config))


def for_base(config):
    return 63_082_496


def for_big_and_base(config):
    count = int(by_names(config))
    return count if config.d_model in (512, 1024) else count + 1


def with_a_fourth_attention_and_no_norms(config):
    d = config.d_model
    return int(by_names(config)) + config.n_layers * (4 * (d * d + d) - 10 * d)


RIGHT = {
    "my_forward": [
        by_the_model,
        with_own_masks,
        sentence_by_sentence,
        with_layers_by_hand,
    ],
    "tied": [tie_modules, tie_by_register, tie_to_projection],
    "counted": [
        by_names,
        layer_by_layer,
        as_float,
        as_numpy,
        lambda c: torch.tensor(by_names(c)),
    ],
    "diagnosis": [{"A": "Sum, not mean"}, {"C": "  healthy "}],
}
WRONG = {
    "my_forward": [
        (for_sixteen_features, "it goes wrong"),
        (detached_memory, "not all of the gradient reaches"),
        (shifted_already, "the shape is (3, 4, 30) where (3, 5, 30) is due"),
        (scales_in_place, "your function changes its inputs in place"),
        (the_first_layers_only, "the result differs"),
        (the_mask_of_the_first_sentence, "the result differs"),
        (zeroed_memory, "the result differs"),
        (hides_special_tokens, "the result differs"),
        (unprojected_numpy, "no gradient"),
        (for_the_notebook, "the factor is √64"),
        (lambda parts, source, target: parts, "a moduledict"),
    ],
    "tied": [
        (tie_frozen, "has no parameter `weight` that learns"),
        (tie_to_zeros, "numbers that none of the three matrices had"),
        (tie_and_empty_the_encoder, "has changed"),
        (tie_and_freeze_the_encoder, "does not learn any more"),
        (tie_for_one_step, "there are 2 parameters in the three places"),
        (tie_the_modules, "give no logits any more"),
        (tie_scaling_embeddings, "other logits than they should"),
        (tie_without_a_row_for_padding, "another gradient"),
        (tie_and_remove_the_positions, "other logits than they should"),
        (tie_with_dropout, "other logits than they should"),
        (forgets_to_return, "your function returns nothing"),
        (loses_a_part, "give no logits any more"),
        (lambda parts: parts, "still has a matrix of its own"),
        (lambda parts: parts.source_embedding.weight, "return the parts"),
    ],
    "counted": [
        (all_parameters_twice, "too many"),
        (for_base, "too many"),
        (for_big_and_base, "1 too many"),
        (with_a_fourth_attention_and_no_norms, "one attention too many"),
        (with_a_fourth_attention_and_no_norms, "the norms are missing"),
        (lambda config: int(by_names(config)) / 1e6, "too few"),
        (lambda config: "63 million", "return an integer, not a str"),
        (builds_a_model, "builds a module"),
    ],
    "diagnosis": [
        ({"A": "healthy"}, "divide it by the 1008 labels"),
        ({"B": "healthy"}, "below ln V"),
        ({"F": "heathy"}, "is none of"),
        ({"C": 3}, "is none of"),
    ],
}
