"""Is it a sound Transformer? All property checks, by name.

Every check runs the model on random sentences and returns a `Verdict`: the property
holds (✓), it does not, where, and what usually causes it (✗), or it cannot be judged
and why (○). They are asked in an order: does it run, is it finite, is it deterministic;
what an answer rests on is asked first. None of them needs to know how the model is
made, but where its submodules can be hooked, a failure names the first at which it
shows. What starts as zeros, and hides what stands before it, has a little noise in its
place meanwhile. All leave weights, gradients, mode and random state as they found them.

Each check's docstring says what the property means, for which models it does not hold,
and its tolerance; README.md what is out of reach. In short, for sound models that are
built otherwise:
    left padding        only asked by `left_padding=True`
    relative positions  pass; they are looked for in the first layer
    sliding windows     pass, unless the window is narrower than seven tokens
    prefix LM           "causal" does not hold: skip=("causal",)
    no positions        in a decoder, on purpose: skip=("order aware",)
    source by turns     in some layers only: skip=("layers read the source",)
    dilated windows     "reads its own token" does not hold: skip it, too
"""

# ruff: noqa: F401

from .crossing import layers_read_the_source
from .first import finite, runs, same_twice
from .hooks import first_difference, outputs
from .leaks import causal, independent_of_neighbours, padding_invariant
from .learning import (
    all_parameters_learn,
    gives_logits,
    initial_loss,
    overfits_one_batch,
)
from .lengths import length_generic
from .maps import attention_is_sound
from .numerics import (
    dtype_moves,
    finite_in_half_precision,
    finite_without_source,
    modes_differ_by_dropout,
)
from .order import order_aware, reads_its_own_token
from .registered import state_is_saved, state_moves, weights_shared_as_meant
from .report import CHECKS, Report, assert_sound, examine, failing
from .residuals import residuals_carry
from .steps import steps_equal_parallel
from .subject import Subject, Suspect
from .verdict import TOLERANCE, Verdict
