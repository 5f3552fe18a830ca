"""Is it a sound Transformer? All property checks, by name.

Every check runs the model on random sentences and returns a `Verdict`: the property
holds (✓), it does not, where, and what usually causes it (✗), or it cannot be judged
and why (○). They are asked in an order: does it run, is it finite, is it deterministic;
what an answer rests on is asked first. None of them needs to know how the model is
made, but where its submodules can be hooked, a failure names the first at which it
shows. What starts as zeros, and hides what stands before it, has a little noise in its
place meanwhile. All leave weights, gradients, mode and random state as they found them.

Each check's docstring says what the property means, for which models it does not hold,
and its tolerance. In short, for sound models that are built otherwise:
    left padding        only asked by `left_padding=True`
    relative positions  pass; they are looked for in the first layer
    sliding windows     pass, unless the window is narrower than seven tokens
    prefix LM           "causal" does not hold: skip=("causal",)
    no positions        in a decoder, on purpose: skip=("order aware",)
    source by turns     in some layers only: skip=("layers read the source",)
    dilated windows     "reads its own token" does not hold: skip it, too

Out of reach is what leaves the model a sound one, only not the one that was meant, as
README.md lists; and a leak that passes for rounding.
There a sound model of the same weights helps: `first_difference` compares the two,
module by module. Within reach are faults that a library publishes, as `transformers`
5.23 does. ProphetNet fails "padding invariant", and rightly, since each position of its
decoder is given the relative positions of another. NLLB-MoE fails "all parameters
learn": its experts take a mask of zeros and ones for their numbers, so that the first
two get every token and the others none.
"""

# ruff: noqa: F401

from transformer_checkup.by_heart import overfits_one_batch
from transformer_checkup.crossing import layers_read_the_source
from transformer_checkup.first import finite, runs, same_twice
from transformer_checkup.gradients import all_parameters_learn
from transformer_checkup.hooks import first_difference, outputs
from transformer_checkup.leaks import (
    causal,
    independent_of_neighbours,
    padding_invariant,
)
from transformer_checkup.learning import gives_logits, initial_loss
from transformer_checkup.lengths import length_generic
from transformer_checkup.limits import finite_in_half_precision, finite_without_source
from transformer_checkup.maps import attention_is_sound
from transformer_checkup.moves import dtype_moves, modes_differ_by_dropout
from transformer_checkup.order import order_aware, reads_its_own_token
from transformer_checkup.registered import state_is_saved, state_moves
from transformer_checkup.report import CHECKS, Report, assert_sound, examine, failing
from transformer_checkup.residuals import residuals_carry
from transformer_checkup.steps import steps_equal_parallel
from transformer_checkup.subject import Subject, Suspect
from transformer_checkup.verdict import TOLERANCE, Verdict
from transformer_checkup.weights import weights_shared_as_meant
