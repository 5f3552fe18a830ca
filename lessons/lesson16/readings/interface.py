"""What the readings' translators share: the course's interface (lesson 16)."""

from torch import Tensor, nn

from helpers.transformer import check_tokens


class Translator(nn.Module):
    """The interface of `helpers.transformer.Transformer` over a reading's own.

    What is hidden follows from PAD. A reading has `project`, which makes logits of
    states; `read(source)`, its memory; `write(target, memory, source)`, the states; and
    `attention_maps(source, target)`, {"encoder": …, "decoder": …, "cross": …}, a list
    each, (batch, heads, queries, keys) a layer.
    """

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.project(self.decode(target, self.encode(source), source))

    def encode(self, source: Tensor) -> Tensor:
        """source (batch, source_length) -> memory (batch, source_length, d_model)."""
        check_tokens(source, "source")
        return self.read(source)

    def decode(self, target: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """States (batch, target_length, d_model)."""
        check_tokens(target, "target")
        return self.write(target, memory, source)
