"""What the readings' translators share: the course's interface (lesson 16)."""

from torch import Tensor, nn

from helpers.transformer import check_tokens


class Translator(nn.Module):
    """The interface of `helpers.transformer.Transformer` over a reading's own.

    source (batch, source_length), target (batch, target_length) -> logits
    (batch, target_length, target_vocab); what is hidden follows from PAD. A reading
    has `project`, which makes logits of states, and says how it reads a source and
    writes a target. `attention_maps(source, target)` is its way to show what it
    attended to: {"encoder": …, "decoder": …, "cross": …}, each a list with a map
    (batch, heads, query_length, key_length) a layer.
    ValueError for tokens that are not ids (batch, length).
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
