"""Answers to lesson 15's exercises that no table holds: right ones, and wrong ones."""

import numpy as np
import torch

# ------------------------------------------------------------------- 15.1 is it causal?


@torch.no_grad()
def causal_by_prefixes(model, source, target):
    model.eval()
    whole = model(source, target)
    return all(
        torch.allclose(model(source, target[:, :end]), whole[:, :end], atol=1e-4)
        for end in range(1, target.shape[1])
    )


def causal_without_padding(model, source, target):
    before = model(source, target)
    for position in range(1, target.size(1)):
        other = target.clone()
        other[:, position:] = 0
        if (model(source, other) - before)[:, :position].abs().max() > 1e-4:
            return False
    return True


def causal_with_every_word(rows=slice(None), farthest=lambda x: x.abs().max()):
    """Tries each word at each position, in some sentences, or in one direction."""

    def is_causal(model, source, target):
        source, target = source[rows], target[rows]
        before = model(source, target)
        for position in range(1, target.size(1)):
            for word in range(4, 50):
                other = target.clone()
                other[:, position] = word
                moved = (model(source, other) - before)[:, :position]
                if farthest(moved) > 1e-4:
                    return False
        return True

    return is_causal


def causal_beside_neighbours(farthest):
    """Takes the later words from the sentence above."""

    def is_causal(model, source, target):
        before = model(source, target)
        for position in range(1, target.size(1)):
            other = target.clone()
            other[:, position:] = target.roll(1, 0)[:, position:]
            moved = (model(source, other) - before)[:, :position]
            if farthest(moved) > 1e-4:
                return False
        return True

    return is_causal


def causal_with_random_words(model, source, target):
    generator = torch.Generator().manual_seed(5)
    before = model(source, target)
    for position in range(1, target.size(1)):
        moved = torch.randint(1, 46, target.shape, generator=generator)
        other = target.clone()
        other[:, position:] = (4 + (target - 4 + moved) % 46)[:, position:]
        if (model(source, other) - before)[:, :position].abs().max() > 1e-4:
            return False
    return True


def causal_in_one_batch(model, source, target):
    rows, length = target.shape
    later = torch.arange(length) >= torch.arange(1, length)[:, None]
    changed = torch.where(later[:, None], 49 - (target - 4), target[None])
    same = 49 - (target - 4) == target
    changed = torch.where(same[None] & later[:, None], 4, changed)
    moved = [(model(source, x) - model(source, target)).abs().amax(-1) for x in changed]
    return torch.stack(moved)[~later[:, None].expand(-1, rows, -1)].max() < 1e-4


def causal_in_place(model, source, target):
    before = model(source, target)
    for position in range(1, target.size(1)):
        target[:, position] = 4 + (target[:, position] - 3) % 46
        if not torch.allclose(
            model(source, target)[:, :position], before[:, :position], atol=1e-4
        ):
            return False
    return True


def causal_by_the_loss(model, source, target):
    logits = model(source, target)[:, :-1]
    loss = torch.nn.functional.cross_entropy(logits.mT, target[:, 1:])
    return bool(loss > 3)


def causal_with_numpy(model, source, target):
    first = model(source, target).numpy()
    worst = 0.0
    for i in range(target.size(1) - 1):
        new = target.clone()
        new[:, i + 1 :] = 53 - new[:, i + 1 :]
        worst = max(worst, abs(model(source, new).numpy() - first)[:, : i + 1].max())
    return worst < 5e-4


def causal_row_by_row(model, source, target):
    for row in range(len(target)):
        one = source[row : row + 1], target[row : row + 1]
        before = model(*one)
        for position in range(1, target.size(1)):
            other = one[1].clone()
            other[0, position] = 4 if other[0, position] != 4 else 5
            moved = model(one[0], other)[:, :position] - before[:, :position]
            if max(moved.max(), -moved.min()) > 1e-3:
                return False
    return True


def causal_by_order(model, source, target):
    before = model(source, target)
    for position in range(1, target.size(1)):
        other = torch.cat([target[:, :position], target[:, position:].flip(1)], dim=1)
        if (model(source, other) - before)[:, :position].abs().max() > 1e-4:
            return False
    return True


def causal_in_part(places, changed=range(1, 99)):
    """Compares only these logits, or changes only these positions."""

    def is_causal(model, source, target):
        before = model(source, target)
        for position in [x for x in changed if x < target.size(1)]:
            other = target.clone()
            other[:, position] = 4 + (target[:, position] - 3) % 46
            moved = (model(source, other) - before)[:, :position].abs() > 1e-4
            if moved[places].any():
                return False
        return True

    return is_causal


def causal_for_some_words(model, source, target):
    before = model(source, target)
    for position in range(1, target.size(1)):
        other = target.clone()
        other[:, position] = 4 + (target[:, position] - 3) % 46
        if (model(source, other) - before)[:, :position, :25].abs().max() > 1e-4:
            return False
    return True


# --------------------------------------------------------------- 15.2 which hypothesis?


def cause_by_prefixes(logits, steps, source, target):
    whole = logits(source, target)

    def agree(a, b):
        return torch.allclose(a, b, atol=1e-4)

    prefixes = [
        agree(logits(source, target[:, :n]), whole[:, :n])
        for n in range(1, target.size(1))
    ]
    if not all(prefixes):
        return "future"
    if agree(logits(other_words(source), target), whole):
        return "SOURCE"
    return "sound" if agree(steps(source, target), whole) else "steps"


def cause_from_a_table(logits, steps, source, target):
    whole, later = logits(source, target), target.clone()
    moved = []
    for end in range(target.size(1) - 1, 0, -1):
        later[:, end] = (target[:, end] + 7) % 45 + 5
        moved.append(logits(source, later)[:, :end] - whole[:, :end])
    symptoms = {
        "future": max(float(x.abs().max()) for x in moved) > 2e-4,
        "source": float((logits(53 - source, target) - whole).norm()) < 1e-5,
        "steps": float((steps(source, target) - whole).abs().max()) > 2e-4,
    }
    return next((cause for cause, found in symptoms.items() if found), "sound")


def cause(logits, steps, source, target, read=None, agree=None):
    """As the reference, with another question about the source or the steps."""
    whole = logits(source, target)
    for end in range(1, target.size(1)):
        later = target.clone()
        later[:, end:] = other_words(later[:, end:])
        if not torch.allclose(
            logits(source, later)[:, :end], whole[:, :end], atol=1e-4
        ):
            return "future"
    other = logits((read or other_words)(source), target)
    if torch.allclose(other, whole, atol=1e-4):
        return "source"
    agree = agree or (lambda a, b: torch.allclose(a, b, rtol=0, atol=5e-4))
    return "sound" if agree(steps(source, target), whole) else "steps"


def cause_from_another_sentence(logits, steps, source, target):
    return cause(logits, steps, source, target, lambda x: x.flip(0))


def cause_by_the_steps(logits, steps, source, target):
    other = steps(other_words(source), target)
    if torch.allclose(other, steps(source, target), atol=1e-4):
        return "source"
    return experiments(other_words)(logits, steps, source, target)


def cause_from_one_word(logits, steps, source, target):
    first = torch.arange(source.size(1)) == 0
    return cause(logits, steps, source, target, lambda x: torch.where(first, 53 - x, x))


def cause_from_a_rise(logits, steps, source, target):
    return cause(logits, steps, source, target, agree=lambda a, b: (a - b).max() < 1e-4)


def experiments(other_source, *, cut=False, only_last=False, tolerance=1e-4):
    """The experiments in their order, each as somebody might do it."""

    def find(logits, steps, source, target):
        whole = logits(source, target)

        def far(a, b):
            return (a - b).abs().max() > tolerance

        for position in range(1, target.size(1)):
            other = target.clone()
            other[:, position:] = 4 + (other[:, position:] - 3) % 46
            other = target[:, :position] if cut else other
            if far(logits(source, other)[:, :position], whole[:, :position]):
                return "future"
        changed = logits(other_source(source), target)
        places = slice(-1, None) if only_last else slice(None)
        if not far(changed[:, places], whole[:, places]):
            return "source"
        return "steps" if far(steps(source, target), whole) else "sound"

    return find


def cause_in_part(places):
    """The experiments, with only these logits compared."""

    def find(logits, steps, source, target):
        def far(a, b):
            return ((a - b).abs() > 1e-4)[places].any()

        whole = logits(source, target)
        for position in range(1, target.size(1)):
            other = target.clone()
            other[:, position:] = 4 + (other[:, position:] - 3) % 46
            if far(logits(source, other)[:, :position], whole[:, :position]):
                return "future"
        if not far(logits(other_words(source), target), whole):
            return "source"
        return "steps" if far(steps(source, target), whole) else "sound"

    return find


def other_words(source):
    return 4 + (source - 3) % 46


RIGHT = {
    "is_causal": [
        causal_with_random_words,
        causal_in_one_batch,
        causal_with_numpy,
        causal_row_by_row,
        causal_in_part(...),
    ],
    "find_cause": [
        experiments(other_words),
        experiments(other_words, tolerance=5e-4),
        experiments(lambda source: 53 - source),
        cause_from_a_table,
    ],
    "diagnosis": [
        {"third": "  No Scale "},
        {"first": "The weights are applied to the keys."},
        {"second": "the causal mask is missing", "third": "The scores are not scaled"},
    ],
}
WRONG = {
    "is_causal": [
        (lambda model, source, target: True, "says True of a model"),
        (causal_in_place, "in place"),
        (causal_by_the_loss, "of a model"),
        (causal_by_order, "says True of a model"),
        (causal_by_prefixes, "the later words are cut off or set to PAD"),
        (causal_without_padding, "the later words are cut off or set to PAD"),
        (causal_with_every_word([0]), "says True of a model"),
        (causal_with_every_word(farthest=torch.max), "says True of a model"),
        (causal_beside_neighbours(lambda x: x.abs().max()), "a neighbour's"),
        (causal_beside_neighbours(torch.max), "says True of a model"),
        (causal_for_some_words, "says True of a model"),
        (causal_in_part(np.s_[..., 4:]), "the logits of the special tokens"),
        (causal_in_part(np.s_[..., [*range(3), *range(4, 50)]]), "says True"),
        (causal_in_part(np.s_[:3]), "only the first sentences"),
        (causal_in_part(np.s_[3:]), "says True of a model"),
        (causal_in_part(np.s_[:, 1:]), "says True of a model"),
        (causal_in_part(..., range(1, 12)), "says True of a model"),
        (causal_in_part(..., range(1, 11)), "says True of a model"),
        (lambda model, source, target: "yes", "return True or False"),
        (lambda model, source, target: 1, "return True or False"),
        (
            lambda model, source, target: (
                model(source, target).triu(1).abs().max().item() < 1
            ),
            "says False of a model: it is sound",
        ),
    ],
    "find_cause": [
        (lambda logits, steps, source, target: "steps", "says steps of a model"),
        (lambda logits, steps, source, target: 2, "return one of"),
        (cause_from_another_sentence, "a neighbour's"),
        (experiments(lambda source: source.roll(1, 0)), "a neighbour's"),
        (cause_by_the_steps, "the steps are asked whether the source is read"),
        (cause_from_one_word, "only one word of the source is changed"),
        (experiments(other_words, cut=True), "says future of a model"),
        (cause_by_prefixes, "says future of a model"),
        (
            experiments(lambda source: source.flip(1)),
            "says source of a model",
        ),
        (experiments(lambda source: source.roll(1, 1)), "says source of a model"),
        (
            experiments(other_words, only_last=True),
            "says source of a model",
        ),
        (experiments(other_words, tolerance=1.5e-3), "of a model"),
        (cause_in_part(np.s_[..., 4:]), "the logits of the special tokens"),
        (cause_in_part(np.s_[:3]), "only the first sentences"),
        (cause_in_part(np.s_[:, :11]), "of a model"),
        (experiments(other_words, tolerance=1e-5), "it rounds"),
        (cause_from_a_rise, "says sound of a model"),
        (
            lambda logits, steps, source, target: (
                "sound"
                if torch.allclose(
                    steps(source, target), logits(source, target), atol=1e-4
                )
                else "future"
            ),
            "not every cause is found",
        ),
    ],
    "diagnosis": [
        ({"first": "no masks"}, "is none of"),
        ({"first": "cross mask of the target"}, "“steps equal parallel” would fail"),
        ({"second": "cross mask of the target"}, "“causal” fails, which this fault"),
        ({"third": "cross mask of the target"}, "“steps equal parallel” would fail"),
    ],
}
