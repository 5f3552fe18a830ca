"""The hunt of lesson 15: its patient, and what is known of the silent faults."""

import torch

from helpers.decoding import translate_ids
from helpers.transformer import Transformer
from lessons.lesson15.patients import Run, SidesSwapped, short_sentences, train_short

# The documents whose text has the fault, by their letters.
PRINTED_IN = {
    "heads split by view alone": "D",
    "masks repeated in another order than heads": "D",
    "norm over length and features": "B",
    "result of masked_fill thrown away": "E",
    "cross mask of the target": "D",
    "the residual taken and never added": "E",
    "softmax before the cross-entropy": "D",
    "the positional table is no buffer": "E",
    "hidden scores filled with -1e9": "A, C",
    "hidden scores filled with -inf": "D",
    "scale from d_head // heads": "D",
    "norm by the unbiased standard deviation": "A, C, D",
}
# The faults of the study silent_faults, by what they do to the training loss and score.
GROUPS = {
    "sound": ["none"],
    "too low": [
        "labels not shifted",
        "result of masked_fill thrown away",
        "no causal mask",
        "causal mask one place too wide",
    ],
    "near sound": [
        "heads joined without the way back",
        "cross mask of the target",
        "positions restart with the cache",
    ],
    "too high": [
        "heads split by view alone",
        "gradients never zeroed",
        "pairs shuffled apart",
        "no source",
        "the residual taken and never added",
        "softmax before the cross-entropy",
        "no scale",
        "scale from d_head // heads",
    ],
    "little cost": [
        "masks repeated in another order than heads",
        "weights applied to the keys",
        "no padding mask in cross-attention",
        "norm by the unbiased standard deviation",
    ],
    "by the seed": ["norm over length and features"],
}
# Not drawn: each does as another one of its group does.
LIKE_OTHERS = (
    "result of masked_fill thrown away",
    "causal mask one place too wide",
    "gradients never zeroed",
    "pairs shuffled apart",
    "the residual taken and never added",
    "weights applied to the keys",
)
DRAWN = {
    group: [fault for fault in faults if fault not in LIKE_OTHERS]
    for group, faults in GROUPS.items()
}


def train_patient(device: torch.device | str = "cpu") -> Run:
    """The translator that lesson 15 hunts a fault in."""
    return train_short(SidesSwapped, device=device)


def translations(model: Transformer) -> list[tuple[str, str, str]]:
    """(source, what is said, what is due) for each held-out pair, as texts."""
    words = short_sentences()
    said = translate_ids(model, [s for s, _ in words.held_out], max_length=20)
    return [
        (
            words.english.decode(source),
            words.french.decode(out),
            words.french.decode(due),
        )
        for (source, due), out in zip(words.held_out, said, strict=True)
    ]
