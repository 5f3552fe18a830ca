"""A Transformer that translates: with vocabularies, recipes, a command line.

    python -m helpers.translator train --corpus toy --output runs/toy
    python -m helpers.translator train --corpus multi30k --source de --target en \\
        --minutes 10 --output runs/de-en
    python -m helpers.translator translate --model runs/de-en "Ein Hund läuft."
    python -m helpers.translator export --model runs/de-en --output served/de-en
    torchrun --nproc-per-node 2 -m helpers.translator train --output runs/toy
"""

from helpers.translator.model import MODEL_FILE, Translator
from helpers.translator.recipes import (
    RECIPES,
    STORED,
    TOYS,
    build,
    load_text,
    trained_toy,
    with_seed,
)

__all__ = [
    "MODEL_FILE",
    "RECIPES",
    "STORED",
    "TOYS",
    "Translator",
    "build",
    "load_text",
    "trained_toy",
    "with_seed",
]
