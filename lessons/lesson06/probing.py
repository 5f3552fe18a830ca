"""What a probe reads after layer 1, and what of it the answers use (lesson 06)."""

import torch
from torch import Tensor
from torch.nn import functional as F

from helpers.masks import padding_mask
from lessons.lesson06.stories import Stories, StoryReader


def probe(vectors: Tensor, known: Tensor, others: Tensor, wanted: Tensor) -> float:
    """The share of other vectors from which a linear classifier reads what is wanted.

    It is fitted to what is known of the first ones, by least squares.
    """

    def with_one(x: Tensor) -> Tensor:
        return torch.cat([x, torch.ones(len(x), 1)], dim=1)

    fitted = torch.linalg.lstsq(with_one(vectors), F.one_hot(known).float())
    read = (with_one(others) @ fitted.solution).argmax(dim=1)
    return (read == wanted).float().mean().item()


@torch.no_grad()
def swap_at_asked(
    model: StoryReader, fitting: Stories, data: Stories, what: str
) -> dict[str, float]:
    """Read the "name" or its "place" at asked names after layer 1, and swap it there.

    The mean vector of what stands there, over stories for fitting, is subtracted, and
    that of the next fact's is added. `read`: the share that a probe reads right.
    `follow`: the share of answers that become the next fact's drink. `stay`, `noise`:
    the share that stays, and that stays if a random vector of this length is added.
    """
    first, second = model.encoder.layers
    masks = [padding_mask(each.tokens) for each in (fitting, data)]
    asked = [each.told_at >= 0 for each in (fitting, data)]
    known, here = (
        (each.tokens if what == "name" else each.told_at)[at]
        for each, at in zip((fitting, data), asked, strict=True)
    )
    end = 2 * asked[1].sum(dim=1, keepdim=True)  # where the question mark stands
    next_told = (data.told_at + 2) % end
    next_name, next_drink = (data.tokens.gather(1, next_told + i) for i in (0, 1))
    instead = (next_name if what == "name" else next_told)[asked[1]]

    vectors = first(model.embed(fitting.tokens), masks[0])[asked[0]]
    x = first(model.embed(data.tokens), masks[1])
    chosen = F.one_hot(known).float()
    means = chosen.T @ vectors / chosen.sum(dim=0)[:, None]
    change = means[instead] - means[here]
    noise = torch.randn(change.shape, generator=torch.Generator().manual_seed(0))
    noise = noise * (change.norm(dim=1) / noise.norm(dim=1))[:, None]

    said = []
    for added in (0, change, noise):
        y = x.clone()
        y[asked[1]] += added
        said.append(model.answer(second(y, masks[1]))[asked[1]].argmax(dim=1))
    return {
        "read": probe(vectors, known, x[asked[1]], here),
        "follow": (said[1] == next_drink[asked[1]] - 13).float().mean().item(),
        "stay": (said[1] == said[0]).float().mean().item(),
        "noise": (said[2] == said[0]).float().mean().item(),
    }
