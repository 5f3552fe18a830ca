"""What the readings' translators share: the course's interface (lesson 16)."""

from torch import Tensor, nn

from helpers.transformer import check_tokens


class Translator(nn.Module):
    """The interface of `helpers.transformer.Transformer` over a reading's own.

    What is hidden follows from PAD. A reading has `project`, which makes logits of
    states, `read` and `write`; `attention_maps(source, target)` gives {"encoder": …,
    "decoder": …, "cross": …}, a list each, (batch, heads, queries, keys) a layer.
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

    def read(self, source: Tensor) -> Tensor:
        """The memory of a source; NotImplementedError unless a reading says how."""
        raise NotImplementedError

    def write(self, tokens: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        """The states of all tokens; NotImplementedError unless a reading says how."""
        raise NotImplementedError
