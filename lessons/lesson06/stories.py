"""Little stories, and a reader that answers who drinks what (lesson 06).

A story tells facts, *ann tea ben milk*; after a question mark come the same names in
a random order, *ben ann*. At each name the answer is what this person drinks.
"""

from itertools import permutations
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from helpers import PAD
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.masks import padding_mask
from helpers.positions import PositionalEncoding, TokenEmbedding
from helpers.training import fit

ALL_NAMES = "ann ben cid dot eva fay gus hal ida jon kim leo"
ALL_DRINKS = "cider cocoa coffee cola juice milk port punch soda soup tea water"
NAMES, DRINKS = ALL_NAMES.split(), ALL_DRINKS.split()
WORDS = ["<pad>", *NAMES, *DRINKS, "?"]  # ids 0, 1 to 12, 13 to 24, 25
QUESTION = WORDS.index("?")
FACTS = (2, 3, 4, 5)
LONGEST = 3 * max(FACTS) + 1  # five facts, the mark, five names
RATE, STEPS = 3e-3, 700  # of a training run


class Stories(NamedTuple):
    """Stories, and for every place what is to be answered and found there."""

    tokens: Tensor  # (stories, LONGEST), padded
    answers: Tensor  # which drink, 0 to 11; -1 where nothing is to be said
    told_at: Tensor  # at asked names, the place of the same name told; elsewhere -1

    def pick(self, rows: Tensor) -> "Stories":
        """The stories of these rows, or where the rows are True."""
        return Stories(*(part[rows] for part in self))


def stories(count: int, facts: int, generator: torch.Generator) -> Stories:
    """So many random stories of so many facts; names and drinks occur once each."""

    def draw() -> Tensor:  # for each story, so many different numbers below 12
        return torch.rand(count, 12, generator=generator).argsort(dim=1)[:, :facts]

    def in_turn(first: Tensor, second: Tensor) -> Tensor:  # ann tea ben milk …
        return torch.stack([first, second], dim=2).flatten(1)

    who, what = draw(), draw()
    order = torch.rand(count, facts, generator=generator).argsort(dim=1)
    none = torch.full_like(who, -1)
    mark = torch.full((count, 1), QUESTION)
    parts = (
        (in_turn(1 + who, 13 + what), mark, 1 + who.gather(1, order)),
        (in_turn(what, none), none[:, :1], what.gather(1, order)),
        (in_turn(none, none), none[:, :1], 2 * order),
    )
    joined = [torch.cat(part, dim=1) for part in parts]
    room = (0, LONGEST - joined[0].size(1))
    fills = PAD, -1, -1
    padded = (F.pad(x, room, value=y) for x, y in zip(joined, fills, strict=True))
    return Stories(*padded)


def has_new_pair(tokens: Tensor) -> Tensor:
    """Whether a story tells a pair that training leaves out: ann cider, ben cocoa …"""
    name, drink = tokens[:, :-1], tokens[:, 1:]
    return ((name > 0) & (name <= 12) & (drink == name + 12)).any(dim=1)


def draw_stories(
    count: int, seed: int, *, new_pair: bool, unlike: Stories | None = None
) -> Stories:
    """So many stories of each length; of these all with a new pair, or all without.

    Those that are also in `unlike` are left out.
    """
    generator = torch.Generator().manual_seed(seed)
    drawn = [stories(count, facts, generator) for facts in FACTS]
    found = Stories(*map(torch.cat, zip(*drawn, strict=True)))
    known = {*map(tuple, unlike.tokens.tolist())} if unlike else {}
    fresh = [tuple(tokens) not in known for tokens in found.tokens.tolist()]
    return found.pick(torch.tensor(fresh) & (has_new_pair(found.tokens) == new_pair))


def places(data: Stories) -> dict[str, Tensor]:
    """Where names are told, drinks stand, and names are asked: (stories, LONGEST)."""
    asked = data.told_at >= 0
    drink = (data.tokens > 12) & (data.tokens < WORDS.index("?"))
    return {"told": (data.answers >= 0) & ~asked, "drink": drink, "asked": asked}


def hand_on(data: Stories, what: str) -> Stories:
    """The same stories, but each of the "names" told, or of the "drinks", moves on.

    It moves to the next fact, the last one round; so every person drinks something
    else. All the rest stays where it is, the questions too.
    """
    at, here = places(data), torch.arange(LONGEST).expand_as(data.tokens)
    end = 2 * at["asked"].sum(dim=1, keepdim=True)  # where the question mark stands
    moved = at["told"] if what == "names" else at["drink"]
    tokens = data.tokens.gather(1, torch.where(moved, (here - 2) % end, here))
    told_at = data.told_at
    if what == "names":
        told_at = ((told_at + 2) % end).where(at["asked"], -1)
    drink = torch.where(at["asked"], told_at, here).clamp(max=LONGEST - 2) + 1
    answers = (tokens.gather(1, drink) - 13).where(data.answers >= 0, -1)
    return Stories(tokens, answers, told_at)


class StoryReader(nn.Module):
    """An encoder that says at every place which drink is meant there.

    tokens (batch, length) -> logits (batch, length, drinks).
    """

    def __init__(self, n_layers: int, *, n_heads: int = 2, d_model: int = 64):
        super().__init__()
        shape = {"d_model": d_model, "n_heads": n_heads, "d_ff": 2 * d_model}
        sizes = LayerSizes(**shape, dropout=0.0, norm_first=False)
        self.embedding = TokenEmbedding(len(WORDS), d_model)
        self.positions = PositionalEncoding(d_model, dropout=0.0, max_length=LONGEST)
        self.encoder = Encoder(n_layers, sizes)
        self.answer = nn.Linear(d_model, len(DRINKS))

    def embed(self, tokens: Tensor) -> Tensor:
        """The vectors that the encoder reads: (batch, length, d_model)."""
        return self.positions(self.embedding(tokens))

    def forward(self, tokens: Tensor) -> Tensor:
        """The logits of the drinks at every place."""
        return self.answer(self.encoder(self.embed(tokens), padding_mask(tokens)))


def train_reader(
    model: nn.Module, data: Stories, *, seed: int, steps: int = STEPS
) -> list[float]:
    """Train on batches of 64 stories; the loss of each step, at all names."""
    chance = torch.Generator().manual_seed(seed)

    def batch() -> tuple[Tensor, Tensor]:
        rows = torch.randint(len(data.tokens), (64,), generator=chance)
        return data.tokens[rows], data.answers[rows]

    def loss(logits: Tensor, answers: Tensor) -> Tensor:
        return F.cross_entropy(logits.mT, answers, ignore_index=-1)

    return fit(model, batch, loss, steps=steps, rate=RATE)


def ideal_guess(names: Tensor, drinks: Tensor) -> Tensor:
    """How likely each name has each drink, for a reader that cannot see who has which.

    names and drinks (stories, facts), each 0 to 11 -> (stories, facts, facts). Every
    pairing without a new pair is as likely as any other, so we count them.
    """
    n = names.size(1)
    pairings = torch.tensor([*permutations(range(n))])  # (pairings, facts)
    possible = names[:, :, None] != drinks[:, None, :]  # ann never has cider, …
    allowed = possible[:, torch.arange(n), pairings].all(dim=2).float()
    counts = torch.einsum("sp,pij->sij", allowed, F.one_hot(pairings, n).float())
    return counts / counts.sum(dim=2, keepdim=True)


def guessing_level(data: Stories) -> float:
    """The share of right answers at asked names that ideal guesses can expect."""
    at, best = places(data), []
    for facts in FACTS:
        some = at["asked"].sum(dim=1) == facts
        names, drinks = (data.tokens[some][at[x][some]] for x in ("told", "drink"))
        guess = ideal_guess(names.view(-1, facts) - 1, drinks.view(-1, facts) - 13)
        best.append(guess.amax(dim=2).flatten())
    return torch.cat(best).mean().item()


def is_new_pair(data: Stories) -> Tensor:
    """At which asked names the right drink makes a new pair: (stories, LONGEST)."""
    return (data.told_at >= 0) & (data.answers == data.tokens - 1)


@torch.no_grad()
def right_at_asked(
    model: nn.Module, data: Stories, where: Tensor | None = None
) -> float:
    """The share of right answers at asked names, or at those of `where`."""
    right = model(data.tokens).argmax(dim=-1) == data.answers
    return right[data.told_at >= 0 if where is None else where].float().mean().item()


@torch.no_grad()
def follow(
    model: StoryReader,
    data: Stories,
    other: Stories,
    at: Tensor,
    *,
    after: int = 1,
    noise: bool = False,
) -> float:
    """The share of asked names answered as in other stories, whose vectors are put in.

    They are put in `after` so many layers, at the places where `at` (stories, LONGEST)
    is True; with `noise`, random vectors of the same lengths instead.
    """
    mask, layers = padding_mask(data.tokens), model.encoder.layers
    x, y = (model.embed(each.tokens) for each in (data, other))
    for layer in layers[:after]:
        x, y = layer(x, mask), layer(y, mask)
    if noise:
        y = torch.randn(y.shape, generator=torch.Generator().manual_seed(0))
        y = y / y.norm(dim=2, keepdim=True) * x.norm(dim=2, keepdim=True)
    x[at] = y[at]
    for layer in layers[after:]:
        x = layer(x, mask)
    answers = model.answer(x).argmax(dim=-1)
    return (answers == other.answers)[places(data)["asked"]].float().mean().item()
