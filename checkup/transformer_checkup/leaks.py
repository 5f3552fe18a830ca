"""What must not matter: the future, padding, the other sentences."""

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_checkup.drawing import draw_heatmap
from transformer_checkup.measures import (
    FAINT,
    change,
    exactly,
    replace_word,
    spread,
    written,
)
from transformer_checkup.places import (
    Batch,
    first_in,
    first_to_mind,
    first_to_mix,
    first_to_see,
    row_of,
)
from transformer_checkup.state import kept_buffers
from transformer_checkup.subject import Fails, Subject, Unknown
from transformer_checkup.suspects import of_leak, of_memory
from transformer_checkup.verdict import TOLERANCE, property_check

BASIS = ("runs", "finite", "same twice")
DECODES = ("encoder-decoder", "decoder")


@property_check(*BASIS, kinds=DECODES, rouse=True)
def causal(subject: Subject) -> str:
    """No logit depends on a target token after its position.

    Does not hold for a prefix language model, whose first tokens see each other; nor
    within the window of a model that writes several tokens at once. It is asked in
    double precision, where a masked token moves nothing at all: a billionth of the
    logits' spread passes for rounding, more in a model that `exactly` gives more.
    """
    with exactly(subject) as bar:
        return _seen(subject, subject.sentences(), bar)


def _seen(subject: Subject, batch: Batch, bar: float) -> str:
    """Raise Fails if a new token moves what stands before it."""
    changes = changes_by_word(subject, *batch)
    if not changes.any():
        raise Unknown("no token moves any logits, so that none could be seen early")
    leaks = changes.triu(1)  # outputs before the changed position
    if not leaks.max() > bar:
        return "no position's logits move when a later target token changes"
    changed, output = divmod(int(leaks.T.argmax()), len(leaks))
    where = first_to_see(subject, batch, changed, bar)
    raise Fails(
        f"a new token at position {changed} moves the logits of position "
        f"{output} by {spread(leaks.max().item())}: it sees the future"
        + first_in(where),
        functools.partial(
            draw_changes,
            changes,
            [str(i) for i in range(len(leaks))],
            title="Above the diagonal, outputs see the future",
            xlabel="changed target position",
            ylabel="position of the logits",
        ),
        of_leak(subject, where, "future"),
    )


def changes_by_word(subject: Subject, source: Tensor | None, target: Tensor) -> Tensor:
    """Change of each position's logits (row) by a new token at each other (column)."""
    before, length = subject.logits(source, target), target.size(1)
    changes = torch.zeros(length, length)  # output position × changed position
    for position in range(1, length):
        other = replace_word(subject, target, position)
        changes[:, position] = change(before, subject.logits(source, other))[0].cpu()
    return changes


@property_check(*BASIS, rouse=True)
def padding_invariant(subject: Subject) -> str:
    """Padding on either side leaves the logits of the real tokens alone.

    "Either side" is the source and the target; PADs stand *behind* the words, where
    batches are padded. In front of them they give every word a later position, and a
    model that counts positions from the start of the row, as the paper's sinusoids do,
    must then answer otherwise, however good its masks are. So padding on the left is no
    property of a sound Transformer. A model that claims it all the same, because its
    positions are relative or counted from the first word, is held to it:
    `left_padding=True`.

    It is asked in double precision; a hundred-thousandth of the logits' spread passes
    for rounding, a ten-thousandth where the model does not run in double.
    """
    with exactly(subject) as bar:
        return _minded(subject, subject.sentences(), max(bar, FAINT))


def _minded(subject: Subject, batch: Batch, bar: float) -> str:
    """Raise Fails if PADs move the logits of real tokens."""
    moved = _moved_by_pads(subject, batch)
    for place, (changes, padded) in moved.items():
        if changes.max() > bar:
            in_front = place.startswith("before")
            where = first_to_mind(subject, batch, padded, bar, in_front=in_front)
            raise Fails(
                f"three PADs {place} move the logits of real tokens by up to "
                f"{spread(changes.max().item())}" + first_in(where),
                functools.partial(
                    draw_changes,
                    torch.cat([found for found, _ in moved.values()]),
                    [f"{p}, sentence {row}" for p in moved for row in (1, 2, 3, 4)],
                    title="Padding moves the logits of real tokens",
                    ylabel="where the PADs are",
                ),
                of_leak(subject, where, "front" if in_front else "padding"),
            )
    places = "before or behind" if subject.left_padding else "behind"
    sides = " or ".join(side for side, _ in _with_pads(subject, batch, "behind"))
    return f"PADs {places} {sides} do not move the logits of real tokens"


def _moved_by_pads(subject: Subject, batch: Batch) -> dict[str, tuple[Tensor, Batch]]:
    """Change of the logits of real tokens, by the place of the PADs, and the batch."""
    before, moved = subject.logits(*batch), {}
    for place in ("behind", "before") if subject.left_padding else ("behind",):
        for side, padded in _with_pads(subject, batch, place):
            logits = subject.logits(*padded)
            if side == "target" or subject.kind == "encoder":
                start = 0 if place == "behind" else 3
                logits = logits[:, start : start + before.size(1)]
            moved[f"{place} the {side}"] = change(before, logits).cpu(), padded
    return moved


def _with_pads(subject: Subject, batch: Batch, place: str) -> list[tuple[str, Batch]]:
    """The batch with three PADs on one side, for each side that there is."""
    pads = (0, 3) if place == "behind" else (3, 0)
    source, target = batch
    made = []
    if source is not None:
        made.append(("source", (F.pad(source, pads, value=subject.pad), target)))
    if target is not None:
        made.append(("target", (source, F.pad(target, pads, value=subject.pad))))
    return made


@property_check(*BASIS, rouse=True)
def independent_of_neighbours(subject: Subject) -> str:
    """A sentence's logits do not depend on the words of the others in its batch.

    The sentences have different lengths: one whose mask is mixed up with another's is
    found only so. Alone, each keeps its PADs. So longer neighbours, which bring PADs,
    are not asked about here: `padding_invariant` asks whether PADs matter. Does not
    hold for models that share capacity within a batch, as
    mixtures of experts that drop tokens. Precision and tolerance are those of
    `padding_invariant`.
    """
    with exactly(subject) as bar:
        return _mixed(subject, _of_four_lengths(subject), max(bar, FAINT))


def _mixed(subject: Subject, batch: Batch, bar: float) -> str:
    """Raise Fails if a sentence's logits alone are not those among others."""
    with kept_buffers(subject.module):
        alone = torch.cat([subject.logits(*row_of(batch, i)) for i in range(4)])
        together, again = (subject.logits(*batch) for _ in range(2))
    changes = change(alone, together)
    real = written(subject, batch) != subject.pad
    moved = changes.masked_fill(~real, 0.0)
    if moved.max() > bar:
        row = int(moved.amax(1).argmax())
        where = first_to_mix(subject, batch, row, bar)
        # `again` had the same batch before it, `fresh` none: does that matter?
        fresh = subject.logits(*row_of(batch, row))
        late = change(together, again).max(), change(fresh, alone[row][None]).max()
        raise Fails(
            "the logits of a sentence alone and among others differ by "
            f"{spread(moved.max().item())}: sentences leak into each other"
            + first_in(where),
            functools.partial(
                draw_changes,
                changes.masked_fill(~real, math.nan).cpu(),
                _lengths_in_words(subject, batch),
                title="Its neighbours move a sentence's logits",
                ylabel="tokens of the sentence",
            ),
            of_memory(where) if max(late) > bar else of_leak(subject, where, "batch"),
        )
    return "padded to one length, a sentence has the same logits alone and among others"


def _of_four_lengths(subject: Subject) -> Batch:
    """A batch in which no two sentences have one length."""
    source, target = subject.sentences()
    for row in range(4):
        if source is not None:
            source[row, 9 - row :] = subject.pad
        if target is not None:
            target[row, 5 + row :] = subject.pad
    return source, target


def _lengths_in_words(subject: Subject, batch: Batch) -> list[str]:
    """Each sentence's lengths, as "source 9, target 5"."""
    lengths = {n: (s != subject.pad).sum(1).tolist() for n, s in subject.sides(*batch)}
    return [", ".join(f"{n} {ls[i]}" for n, ls in lengths.items()) for i in range(4)]


def draw_changes(
    changes: Tensor,
    rows: list[str],
    *,
    title: str,
    xlabel: str = "position of the logits (0 reads <bos>)",
    ylabel: str = "",
) -> None:
    """A heatmap of how far logits move, in their spread.

    changes (rows, positions); NaN stands where there is nothing to compare. Infinity
    has the colour of the largest change that is finite.
    """
    finite = changes[changes.isfinite()]
    highest = max([TOLERANCE, *finite.tolist()])
    draw_heatmap(
        changes.clamp(max=highest),
        rows,
        range(changes.size(1)),
        title=title,
        xlabel=xlabel,
        ylabel=ylabel,
        label="change, in spreads",
        highest=highest,
    )
