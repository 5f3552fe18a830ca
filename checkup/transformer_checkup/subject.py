"""What is examined: a model, how it is called, and what it ought to be able to do."""

import math
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from transformer_checkup.given import check_given, check_names
from transformer_checkup.state import in_mode

TRIED = 40  # tokens, where no length is given
# What PyTorch says where two dtypes meet.
MISMATCH = re.compile("same dtype|scalar type|dtype mismatch|dtypes match")

Maps = Mapping[str, Sequence[Tensor]]


def says(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    return traceback.format_exception_only(error)[-1].strip().splitlines()[0]


class Fails(Exception):
    """The property does not hold; the text says where.

    `suspects` are the usual ones, most likely first; `draw` shows what is wrong.
    """

    def __init__(
        self,
        text: str,
        draw: Callable[[], None] | None = None,
        suspects: Sequence["Suspect"] = (),
    ):
        super().__init__(text)
        self.draw, self.suspects = draw, tuple(suspects)


class Unknown(Exception):
    """The property cannot be judged; the text says why."""


@dataclass(frozen=True)
class Suspect:
    """Where a fault may sit, a module's name or "" for the model's own forward.

    `method` is the function whose result first differs, with its file and line.
    """

    where: str
    what: str
    method: str = ""

    @property
    def text(self) -> str:
        """As it is printed: the place, then what is often wrong there."""
        inside = f", in {self.method}" if self.method else ""
        return f"{named(self.where)}{inside}: {self.what}"


def named(where: str) -> str:
    """A module's name as it is printed."""
    return f"`{where}`" if where else "the model's own `forward`"


@dataclass(frozen=True)
class Subject:
    """A model under examination, and what of its inside may be looked at.

    model is a Module or any other callable that takes ids and gives logits, at each
    position those of the next token. What it takes is its `kind`:
        "encoder-decoder"   model(source, target) -> (batch, target_length, vocabulary)
        "decoder"           model(tokens) -> (batch, length, vocabulary)
        "encoder"           model(tokens) -> (batch, length, anything)
    ids are (batch, length). A model with another interface needs a function of three
    lines, as the adapters are; then `module` says where its parameters are. One
    vocabulary is enough if both sides share it.

    Conventions: `pad` is the id behind the words, `bos` the one that a translation
    begins with, None if there is none; `special` are the other ids that are no words.
    pad=1 with bos=0 is BART's, pad=50256 with bos=None and special=() GPT-2's, whose
    end mark pads. `left_padding` says that the model claims to bear padding in front of
    the words, which few do: see `padding_invariant`.

    More to compare: `steps`, the same function computed as decoding does it, a few
    tokens at a time; `beams(…, parents)`, the same one by one, where from the second
    step on row i goes on from the past of row parents[i, step]; `loss`, of the model's
    arguments, as it is trained: the mean cross-entropy of each token (behind BOS, if it
    translates) given those before it. `attention` gives the maps of a batch as
    {"encoder": …, "decoder": …, "cross": …}, those that there are, each a list with a
    tensor (batch, heads, query_length, key_length) a layer. `longest` is a length that
    the model must take; 40 are tried where none is given. A `trained` model is not
    asked for its first loss, nor to learn one batch by heart. `tied` names pairs of
    parameters that the model claims to share, `unused` modules that the logits leave
    out on purpose. `rebuild` builds the model anew, with other weights, to load a state
    into. `skip` names checks that do not apply.

    ValueError for what makes no sense: another kind, a vocabulary of fewer than 8
    tokens, a module that is none, `steps` of an encoder, and names in `tied` or
    `unused` that the module does not have.
    """

    model: Callable[..., Tensor]
    source_vocab: int
    target_vocab: int | None = None
    kind: str = "encoder-decoder"
    module: nn.Module | None = None
    pad: int = 0
    bos: int | None = 2
    special: tuple[int, ...] = (0, 1, 2, 3)
    steps: Callable[..., Tensor] | None = None
    beams: Callable[..., Tensor] | None = None
    loss: Callable[..., Tensor] | None = None
    attention: Callable[..., Maps] | None = None
    longest: int | None = None
    trained: bool = False
    left_padding: bool = False
    tied: tuple[tuple[str, str], ...] = ()
    unused: tuple[str, ...] = ()
    rebuild: Callable[[], "Subject"] | None = None
    skip: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self):
        check_given(self)
        if self.target_vocab is None:
            object.__setattr__(self, "target_vocab", self.source_vocab)
        if self.module is None and isinstance(self.model, nn.Module):
            object.__setattr__(self, "module", self.model)
        if self.module is not None:
            check_names(self.module, self.tied, self.unused)

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are; the CPU if it has none."""
        parameters = self.module.parameters() if self.module is not None else ()
        return next((p.device for p in parameters), torch.device("cpu"))

    @property
    def vocab(self) -> int:
        """The number of tokens that the logits are about."""
        return self.source_vocab if self.kind == "encoder" else self.target_vocab

    def sentences(
        self, source_length: int = 9, target_length: int = 8, *, rows: int = 4
    ) -> tuple[Tensor | None, Tensor | None]:
        """Random ids (rows, length) for both sides, no padding; None for a side less.

        The targets of an encoder–decoder begin with BOS, if there is one, a decoder's
        with a word.
        """
        generator = torch.Generator().manual_seed(self.seed)

        def draw(length: int, vocab: int) -> Tensor:
            words = self.words(vocab).cpu()
            # No word comes twice before each came once, so that order can matter.
            drawn = [
                words[torch.randperm(len(words), generator=generator)]
                for _ in range(rows * math.ceil(length / len(words)))
            ]
            return torch.cat(drawn).view(rows, -1)[:, :length].to(self.device)

        source = target = None
        if self.kind != "decoder":
            source = draw(source_length, self.source_vocab)
        if self.kind != "encoder":
            target = draw(target_length, self.target_vocab)
        if self.kind == "encoder-decoder":
            target[:, 0] = target[:, 0] if self.bos is None else self.bos
        return source, target

    def words(self, vocab: int) -> Tensor:
        """The ids that are words, in order."""
        ids = torch.arange(vocab, device=self.device)
        return ids[~torch.isin(ids, torch.tensor(self.no_words, device=self.device))]

    @property
    def no_words(self) -> list[int]:
        """The ids that are no words."""
        return [i for i in (self.pad, self.bos, *self.special) if i is not None]

    def next_words(self, ids: Tensor, vocab: int) -> Tensor:
        """The word behind each in the vocabulary; the first behind the last."""
        words = self.words(vocab)
        return words[(torch.searchsorted(words, ids.contiguous()) + 1) % len(words)]

    def logits(self, source: Tensor | None, target: Tensor | None) -> Tensor:
        """The model's output, detached, in eval mode."""
        with in_mode(self.module, training=False), torch.no_grad():
            return self.call(self.model, source, target)

    def call(
        self, function: Callable, source: Tensor | None, target: Tensor | None
    ) -> Tensor:
        """function(source, target), checked to be logits; raises Fails otherwise."""
        given = [side for side in (source, target) if side is not None]
        try:
            logits = function(*given)
        except Unknown:
            raise
        except Exception as error:
            sides = self.sides(source, target)
            sizes = ", ".join(f"{name} {tuple(side.shape)}" for name, side in sides)
            raise Fails(f"the model stops on {sizes} with {says(error)}") from error
        shape, due = getattr(logits, "shape", None), (*given[-1].shape, self.vocab)
        free = self.kind == "encoder"  # states or logits, of any size
        if isinstance(logits, Tensor) and free and shape[:-1] == due[:-1]:
            return logits
        if not isinstance(logits, Tensor) or tuple(shape) != due:
            what = type(logits).__name__ if shape is None else tuple(shape)
            sizes = [*map(str, due[:-1]), "any size" if free else str(due[-1])]
            expected = f"({', '.join(sizes)})"
            raise Fails(f"the model gives {what} where logits {expected} are expected")
        return logits

    def sides(
        self, source: Tensor | None, target: Tensor | None
    ) -> list[tuple[str, Tensor]]:
        """The sides that the model has, by name."""
        sides = {"source": source, "target": target}
        return [(name, side) for name, side in sides.items() if side is not None]
