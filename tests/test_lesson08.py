"""What lesson 08 says of a training step's memory, measured with PyTorch's profiler."""

import torch
from torch.profiler import profile

from helpers.batching import Batch
from helpers.probes import kept_numbers
from helpers.transformer import Transformer, TransformerConfig
from lessons.lesson08.assembly import mean_loss


def test_a_step_needs_two_gradients_of_the_logits_size_besides_what_is_kept():
    sizes = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 1, "dropout": 0.0}
    model = Transformer(TransformerConfig(3000, 3000, **sizes))
    ids = torch.full((40, 26), 5)
    batch = Batch(ids[:, :25], ids)
    mean_loss(model, batch).backward()
    model.zero_grad(set_to_none=False)  # the weights' gradients are there already
    kept = kept_numbers(model, lambda: mean_loss(model, batch))
    with profile(profile_memory=True) as seen:
        mean_loss(model, batch).backward()
    held = peak = 0
    events = seen.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes() if event.name() == "[memory]" else 0
        peak = max(peak, held)
    logits = 40 * 25 * 3000
    assert abs(peak / 4 - (kept + 2 * logits)) < 0.01 * kept
