"""The list of faults: each changes its model, and the models that it is in run."""

import pytest
import torch

from faults import FAULTS, SOUND
from faults.listing import KEPT_ASIDE
from faults.specimens import COURSE
from helpers import BOS, PAD
from helpers.decoding import start_decoding

# PyTorch's encoder, where it takes its fast path.
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
EACH_SOUND = pytest.mark.parametrize("specimen", SOUND.values(), ids=SOUND)
EACH_FAULT = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


def batch(specimen, vocab=60, longest=9):
    """Random ids with some padding: a source and a target, or one of the two."""
    source = torch.randint(4, vocab, (4, longest))
    target = torch.randint(4, vocab, (4, longest - 1))
    target[:, 0] = BOS
    source[1, -3:] = target[2, -2:] = PAD
    return (source, target) if specimen.kind == "encoder-decoder" else (target,)


def kept(observe, *arguments):
    """What is observed, or the type of the error in its place."""
    try:
        return observe(*arguments)
    except (RuntimeError, IndexError, AttributeError) as error:
        return type(error).__name__


def logits(specimen, model, tokens):
    return specimen.call(model, *tokens)


def gradients(specimen, model, tokens):
    specimen.call(model, *tokens).square().mean().backward()
    return [p.grad is not None and bool(p.grad.any()) for p in model.parameters()]


def in_half_precision(specimen, model, tokens):
    with torch.autocast("cpu", torch.float16):
        return specimen.call(model, *tokens)


def cached(model, tokens):
    cache, parts = None, []
    for token in tokens.split(1, 1):
        output = model(input_ids=token, past_key_values=cache, use_cache=True)
        cache = output.past_key_values
        parts.append(output.logits)
    return torch.cat(parts, 1)


def by_steps(specimen, model, tokens):
    if specimen.name == "Llama":
        return cached(model, *tokens)
    if specimen.code_base != COURSE:
        return None
    decoding = start_decoding(model, tokens[0])
    return torch.stack([decoding.step(token) for token in tokens[1].unbind(1)], 1)


def observed(specimen, model):
    """All that a fault may change, by name."""
    torch.manual_seed(0)
    tokens, long = batch(specimen), batch(specimen, longest=30)
    empty = [part.clone() for part in tokens]
    empty[0][0] = PAD
    seen = {"gradients": kept(gradients, specimen, model, tokens)}
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    seen |= {"names": names, "state": [*model.state_dict()]}
    seen["ids"] = len({id(p) for p in model.parameters()})
    with torch.no_grad():
        seen["train"] = logits(specimen, model.train(), tokens)
        model.eval()
        others = [t.flip(1) for t in tokens]
        given = {"plain": tokens, "others": others, "long": long, "empty": empty}
        for name, tried in given.items():
            seen[name] = kept(logits, specimen, model, tried)
        seen["short"] = kept(logits, specimen, model, [t[:, 1:2] for t in tokens])
        seen["half"] = kept(in_half_precision, specimen, model, tokens)
        seen["steps"] = kept(by_steps, specimen, model, tokens)
        seen["double"] = kept(logits, specimen, model.double(), tokens)
        seen["bfloat16"] = kept(logits, specimen, model.bfloat16(), tokens)
        for parameter in model.float().parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # what was zero, too
        seen["awake"] = kept(logits, specimen, model, tokens)
        for parameter in model.parameters():
            parameter.mul_(30)  # as training makes them, for a softmax's scores
        seen["loud"] = kept(logits, specimen, model, tokens)
    return seen


def equal(left, right):
    if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
        same = left.shape == right.shape
        return same and torch.allclose(left, right, atol=1e-6, equal_nan=True)
    return not isinstance(left, torch.Tensor) and left == right


@EACH_SOUND
@pytest.mark.parametrize("vocab", [20, 200])
def test_a_sound_model_runs(specimen, vocab):
    model = specimen.build(vocab, 0).eval()
    tokens = batch(specimen, vocab)
    found = logits(specimen, model, tokens)
    assert found.shape == (*tokens[-1].shape, vocab)
    assert found.isfinite().all()


@pytest.mark.parametrize("name", ["BERT", "nn.Transformer", "reading C", "the course"])
def test_what_is_observed_does_not_change_by_itself(name):
    (specimen, *_) = (s for s in SOUND.values() if s.name.startswith(name))
    first, second = (observed(specimen, specimen.build(60, 0)) for _ in range(2))
    assert [key for key in first if not equal(first[key], second[key])] == []


@EACH_FAULT
def test_a_fault_changes_what_its_model_does_or_holds(fault):
    sound = observed(fault.specimen, fault.specimen.build(60, 0))
    damaged = observed(fault.specimen, fault.build())
    assert [key for key in sound if not equal(sound[key], damaged[key])]


def test_the_list_is_as_long_and_as_wide_as_it_was_promised():
    assert len(FAULTS) >= 44
    assert len({fault.specimen.code_base for fault in FAULTS.values()}) == 5
    foreign = [s for s in SOUND.values() if s.code_base != COURSE]
    assert len(foreign) >= 12
    assert {s.kind for s in foreign} == {"encoder-decoder", "decoder", "encoder"}


def test_a_fault_names_modules_that_are_there():
    for fault in FAULTS.values():
        names = {
            name for name, _ in fault.build().named_modules(remove_duplicate=False)
        }
        assert names & {*fault.where}, fault.name


def test_the_faults_kept_aside_are_ten_of_the_list():
    assert len({*KEPT_ASIDE} & {*FAULTS}) == len(KEPT_ASIDE) == 10
