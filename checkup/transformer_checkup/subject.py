"""What is examined: a model, how it is called, and what it ought to be able to do."""

import math
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .given import check_given, check_names
from .state import in_mode

TRIED = 40  # tokens, where no length is given
# What PyTorch says where two dtypes meet.
MISMATCH = re.compile("same dtype|scalar type|dtype mismatch|dtypes match")

Maps = Mapping[str, Sequence[Tensor]]
Batch = tuple[Tensor, ...]  # ids (rows, length) for each side that the model has


def says(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    return traceback.format_exception_only(error)[-1].strip().splitlines()[0]


class Fails(Exception):
    """The property does not hold; the text says where.

    `suspects` are the usual ones, most likely first; `draw` shows what is wrong.
    """

    def __init__(
        self, text: str, suspects: Sequence = (), draw: Callable | None = None
    ):
        super().__init__(text)
        self.suspects, self.draw = tuple(suspects), draw


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
    ids are (batch, length). If model is a function around a Module, `module` is that.

    `pad` is the id behind the words, `bos` the one that a translation begins with, None
    if there is none; `special` are the other ids that are no words. `left_padding`: the
    model claims to bear padding in front, which few do, see `padding_invariant`.

    More to compare: `steps`, the same function computed as decoding does it, a few
    tokens at a time; `beams(…, parents)`, the same one by one, where from the second
    step on row i goes on from the past of row parents[i, step]; `loss`, of the model's
    arguments, as it is trained: the mean cross-entropy of each token (behind BOS, if it
    translates) given those before it. `attention` gives the maps of a batch as
    {"encoder": …, "decoder": …, "cross": …}, those that there are, each a list with a
    tensor (batch, heads, query_length, key_length) a layer. `rebuild` builds the model
    anew, with other weights, to load a state into. `tied` names pairs of parameters
    that the model claims to share, `unused` modules that the logits leave out on
    purpose. `longest` is a length that it must take; 40 are tried where none is given.
    A `trained` model is not asked for its first loss, nor to learn one batch by heart.
    `skip` names checks that do not apply. ValueError for what makes no sense.
    """

    model: Callable[..., Tensor]
    source_vocab: int  # and of the target, if no other is given
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
            check_names(self)

    @property
    def device(self) -> torch.device:
        """Where the model's parameters are; the CPU if it has none."""
        parameters = self.module.parameters() if self.module is not None else ()
        return next((p.device for p in parameters), torch.device("cpu"))

    @property
    def vocab(self) -> int:
        """The number of tokens that the logits are about."""
        return self.source_vocab if self.kind == "encoder" else self.target_vocab

    @property
    def sides(self) -> dict[str, int]:
        """The sides that the model is given, in order, and their vocabularies."""
        sizes = {"source": self.source_vocab, "target": self.target_vocab}
        missing = {"decoder": "source", "encoder": "target"}.get(self.kind)
        return {side: size for side, size in sizes.items() if side != missing}

    def sentences(
        self, source_length: int = 9, target_length: int = 8, *, rows: int = 4
    ) -> Batch:
        """Random ids (rows, length) for each side that the model has, no padding.

        The targets of an encoder–decoder begin with BOS, if there is one, a decoder's
        with a word.
        """
        generator = torch.Generator().manual_seed(self.seed)
        lengths, batch = {"source": source_length, "target": target_length}, []
        for side, vocab in self.sides.items():
            words, length = self.words(vocab).cpu(), lengths[side]
            # No word comes twice before each came once, so that order can matter.
            drawn = [
                words[torch.randperm(len(words), generator=generator)]
                for _ in range(rows * math.ceil(length / len(words)))
            ]
            ids = torch.cat(drawn).view(rows, -1)[:, :length].to(self.device)
            if self.kind == "encoder-decoder" and side == "target":
                ids[:, 0] = ids[:, 0] if self.bos is None else self.bos
            batch.append(ids)
        return tuple(batch)

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

    def logits(self, *batch: Tensor) -> Tensor:
        """The model's output, detached, in eval mode."""
        with in_mode(self.module, training=False), torch.no_grad():
            return self.call(self.model, *batch)

    def call(self, function: Callable, *batch: Tensor) -> Tensor:
        """function(*batch), checked to be logits; raises Fails otherwise."""
        try:
            logits = function(*batch)
        except Unknown:
            raise
        except Exception as error:
            given = zip(self.sides, batch, strict=True)
            sizes = ", ".join(f"{side} {tuple(ids.shape)}" for side, ids in given)
            raise Fails(f"the model stops on {sizes} with {says(error)}") from error
        rows, length = batch[-1].shape
        size = "any size" if self.kind == "encoder" else self.vocab
        fits = isinstance(logits, Tensor) and logits.shape[:-1] == (rows, length)
        if fits and size in ("any size", logits.size(-1)):
            return logits
        shape = getattr(logits, "shape", None)
        what = type(logits).__name__ if shape is None else tuple(shape)
        due = f"({rows}, {length}, {size})"
        raise Fails(f"the model gives {what} where logits {due} are expected")
