"""What the readings' translators share: the course's interface (lesson 16).

Most readings keep no keys and values, and decode the whole prefix again at every step.
"""

import torch
from torch import Tensor, nn

from helpers.transformer import check_tokens


def whole_prefix(target: Tensor, caches: list[Tensor] | None) -> Tensor:
    """The tokens decoded before, from caches, with target after them.

    target (batch, new) -> (batch, all); caches is a list that starts empty and grows
    by target. Without caches target is everything already. A model that decodes the
    prefix again at every step costs n/2 times as many positions for n tokens, but
    `helpers.decoding` runs on it unchanged.
    """
    if caches is None:
        return target
    caches.append(target)
    return torch.cat(caches, dim=1)


class Translator(nn.Module):
    """The interface of `helpers.transformer.Transformer` over a reading's own.

    source (batch, source_length), target (batch, target_length) -> logits
    (batch, target_length, target_vocab); what is hidden follows from PAD. A reading
    has `project`, which makes logits of states, and says how it reads a source and
    writes a target. `attention_maps(source, target)` is its way to show what it
    attended to: {"encoder": …, "decoder": …, "cross": …}, each a list with a map
    (batch, heads, query_length, key_length) a layer.
    """

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.project(self.decode(target, self.encode(source), source))

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, source_length) -> memory (batch, source_length, d_model)."""
        check_tokens(source, "source")
        return self.read(source)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        source: Tensor,
        *,
        caches: list[Tensor] | None = None,
    ) -> Tensor:
        """States (batch, target_length, d_model); for caches see `whole_prefix`."""
        check_tokens(target, "target")
        tokens = whole_prefix(target, caches)
        return self.write(tokens, memory, source)[:, -target.size(1) :]

    def new_caches(self) -> list[Tensor]:
        """Nothing decoded yet."""
        return []

    def read(self, source: Tensor) -> Tensor:
        """The memory of a source."""
        raise NotImplementedError

    def write(self, tokens: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """The states of all tokens at once."""
        raise NotImplementedError
