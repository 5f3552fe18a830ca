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
from helpers.attention import record_attention
from helpers.encoder import Encoder
from helpers.layers import LayerSizes
from helpers.masks import padding_mask
from helpers.positions import PositionalEncoding, TokenEmbedding

ALL_NAMES = "ann ben cid dot eva fay gus hal ida jon kim leo"
ALL_DRINKS = "cider cocoa coffee cola juice milk port punch soda soup tea water"
NAMES, DRINKS = ALL_NAMES.split(), ALL_DRINKS.split()
WORDS = ["<pad>", *NAMES, *DRINKS, "?"]  # ids 0, 1 to 12, 13 to 24, 25
QUESTION = WORDS.index("?")
FACTS = (2, 3, 4, 5)
LONGEST = 3 * max(FACTS) + 1  # five facts, the mark, five names


class Stories(NamedTuple):
    """Stories, and for every place what is to be answered and found there."""

    tokens: Tensor  # (stories, LONGEST), padded
    answers: Tensor  # which drink, 0 to 11; -1 where nothing is to be said
    twin: Tensor  # at asked names, the place of the same name told; elsewhere -1

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
    tokens, said = data.tokens, data.answers >= 0
    asked = data.twin >= 0
    drink = (tokens > 12) & (tokens < QUESTION)
    return {"told": said & ~asked, "drink": drink, "asked": asked}


def looks(data: Stories) -> dict[str, Tensor]:
    """Looks that could help: the place each word should look at, -1 for no place."""
    here, at = torch.arange(LONGEST).expand_as(data.tokens), places(data)
    targets = {
        "told → its drink": (at["told"], here + 1),
        "drink → its name": (at["drink"], here - 1),
        "asked → told": (at["asked"], data.twin),
        "asked → its drink": (at["asked"], data.twin + 1),
    }
    return {name: x.where(who, -1) for name, (who, x) in targets.items()}


def hand_on(data: Stories, what: str) -> Stories:
    """The same stories, but all drinks, or all told names, move to the next fact.

    The last one moves to the first fact, so every person drinks something else.
    `what` is "drink" or "told".
    """
    at, here = places(data), torch.arange(LONGEST).expand_as(data.tokens)
    end = 2 * at["asked"].sum(dim=1, keepdim=True)  # where the question mark stands
    source = torch.where(at[what], (here - 2) % end, here)
    tokens = data.tokens.gather(1, source)
    twin = data.twin if what == "drink" else (data.twin + 2) % end
    drink = torch.where(at["asked"], twin, here).clamp(max=LONGEST - 2) + 1
    answers = (tokens.gather(1, drink) - 13).where(data.answers >= 0, -1)
    return Stories(tokens, answers, twin.where(at["asked"], -1))


class StoryReader(nn.Module):
    """An encoder that says at every place which drink is meant there."""

    def __init__(
        self,
        n_layers: int,
        *,
        d_model: int = 64,
        n_heads: int = 2,
        norm_first: bool = False,
    ):
        super().__init__()
        shape = {"d_model": d_model, "n_heads": n_heads, "d_ff": 2 * d_model}
        sizes = LayerSizes(**shape, dropout=0.0, norm_first=norm_first)
        self.embedding = TokenEmbedding(len(WORDS), d_model)
        self.positions = PositionalEncoding(d_model, dropout=0.0, max_length=LONGEST)
        self.encoder = Encoder(n_layers, sizes)
        self.answer = nn.Linear(d_model, len(DRINKS))

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (batch, length) -> logits (batch, length, drinks)."""
        x = self.positions(self.embedding(tokens))
        return self.answer(self.encoder(x, padding_mask(tokens)))


def train_on_stories(
    model: nn.Module,
    data: Stories,
    *,
    steps: int = 700,
    seed: int = 0,
    rate: float = 2e-3,
) -> list[float]:
    """Train on batches of 64; the loss at the asked names, step by step.

    Adam with the paper's betas; the rate grows in a straight line for 100 steps.
    """
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    options = {"betas": (0.9, 0.98), "eps": 1e-9, "fused": True}
    optimizer = torch.optim.Adam(model.parameters(), **options)
    history = []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 100)
        rows = torch.randint(len(data.tokens), (64,), generator=generator)
        tokens, answers, twin = (part.to(device) for part in data.pick(rows))
        logits = model(tokens).transpose(1, 2)  # the classes come second
        losses = F.cross_entropy(logits, answers, ignore_index=-1, reduction="none")
        optimizer.zero_grad()
        losses[answers >= 0].mean().backward()
        optimizer.step()
        history.append(losses[twin >= 0].mean().item())
    return history


@torch.no_grad()
def accuracy(model: nn.Module, data: Stories) -> dict[str, float]:
    """The share of right answers at told names, and at asked ones."""
    device = next(model.parameters()).device
    right = model(data.tokens.to(device)).argmax(dim=-1).cpu() == data.answers
    at = places(data)
    return {name: right[at[name]].float().mean().item() for name in ("told", "asked")}


@torch.no_grad()
def shares(model: nn.Module, data: Stories) -> Tensor:
    """The mean weight on the key of each helpful look: (looks, layers, heads)."""
    with record_attention(model) as maps:
        model(data.tokens)
    found = []
    for look in looks(data).values():
        story, query = (look >= 0).nonzero(as_tuple=True)
        key = look[story, query]
        found += [torch.stack([w[story, :, query, key].mean(0) for w in maps.values()])]
    return torch.stack(found)


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


def guessing_level(data: Stories) -> tuple[float, float]:
    """The share of right answers and the loss that ideal guesses can expect."""
    at, best, entropy = places(data), [], []
    for facts in FACTS:
        some = at["asked"].sum(dim=1) == facts
        names, drinks = (data.tokens[some][at[x][some]] for x in ("told", "drink"))
        guess = ideal_guess(names.view(-1, facts) - 1, drinks.view(-1, facts) - 13)
        best.append(guess.amax(dim=2).flatten())
        entropy.append(-guess.xlogy(guess).sum(dim=2).flatten())
    return torch.cat(best).mean().item(), torch.cat(entropy).mean().item()


@torch.no_grad()
def states(model: StoryReader, data: Stories) -> list[Tensor]:
    """The vectors (stories, length, d_model): embedded, and after each layer."""
    vectors = [model.positions(model.embedding(data.tokens))]
    for layer in model.encoder.layers:
        vectors.append(layer(vectors[-1], padding_mask(data.tokens)))
    return vectors


def labels(data: Stories, at: str, what: str) -> Tensor:
    """At told or asked names, in order: the number of the "name" or of the "drink"."""
    numbers = data.tokens - 1 if what == "name" else data.answers
    return numbers[places(data)[at]]
