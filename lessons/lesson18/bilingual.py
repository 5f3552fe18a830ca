"""A language model of the toy corpus, trained once and kept (lesson 18)."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from helpers.modern.language_model import LanguageModel
from helpers.modern.writing import next_token_loss
from helpers.provenance import code_hash, with_imports
from helpers.scale.checkpoints import write_atomically
from helpers.training import cosine_rate
from helpers.translator import CACHE
from lessons.lesson18.one_sequence import batches, join, modern_sizes

STEPS, PEAK, WARM_UP = 1_000, 4e-3, 0.1


def trained_bilingual(cache: Path = CACHE, *, steps: int = STEPS) -> LanguageModel:
    """The model with its loss on everything, loaded from `cache`, or trained and kept.

    Training takes about two minutes on one core. The file's name holds a hash of the
    code, the corpus's grammar included.
    """
    torch.manual_seed(0)
    model = LanguageModel(modern_sizes())
    code = [path.read_text("utf-8") for path in with_imports([Path(__file__)])]
    digest = code_hash(code, str(steps), torch.__version__)
    path = Path(cache) / f"bilingual-{digest}.safetensors"
    if path.exists():
        model.load_state_dict(load_file(path))
    else:
        _train(model, steps)
        state = {name: x.contiguous() for name, x in model.state_dict().items()}
        write_atomically(path, lambda part: save_file(state, part))
    return model.eval()


def _train(model: LanguageModel, steps: int) -> None:
    data = batches(0, joint=True)
    options = {"betas": (0.9, 0.98), "eps": 1e-9, "weight_decay": 0.01, "fused": True}
    optimizer = torch.optim.AdamW(model.parameters(), **options)
    for step in range(steps):
        rate = cosine_rate((step + 1) / (steps + 1), peak=PEAK, warmup=WARM_UP)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.zero_grad()
        joined = join(next(data))
        counted = joined.counted(everything=True)
        next_token_loss(model, joined.tokens, counted).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
