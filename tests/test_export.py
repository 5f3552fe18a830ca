"""The model leaves Python: torch.export and torch.compile take it whole."""

import pytest
import torch
from torch.export import Dim
from torch.testing import assert_close

from samples import SIZES, sentences, small_model

pytestmark = pytest.mark.slow  # the tracer takes ten seconds to load
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
LONGEST = SIZES["max_length"]


def ids(*shape):
    return torch.randint(4, 50, shape)


@pytest.fixture(scope="module", params=[False, True], ids=["last", "first"])
def exported(request):
    """The model, and the program that was exported from it once, at one shape."""
    torch.manual_seed(0)
    model = small_model(norm_first=request.param)
    batch = Dim("batch", max=64)
    source, target = (Dim(name, max=LONGEST) for name in ("source", "target"))
    shapes = ({0: batch, 1: source}, {0: batch, 1: target})
    program = torch.export.export(model, sentences(), dynamic_shapes=shapes)
    return model, program.module()


@pytest.mark.parametrize(
    ("batch", "source", "target"),
    [(1, 1, 6), (2, 7, 1), (5, LONGEST, LONGEST)],
)
def test_the_exported_program_equals_the_model(exported, batch, source, target):
    model, program = exported
    inputs = ids(batch, source), ids(batch, target)
    assert_close(program(*inputs), model(*inputs), **CLOSE)


def test_the_exported_program_hides_padding(exported):
    model, program = exported
    inputs = sentences(rows=5, source_length=9, target_length=8)
    assert_close(program(*inputs), model(*inputs), **CLOSE)


@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0")
@pytest.mark.parametrize(
    "training", [False, pytest.param(True, marks=pytest.mark.long)]
)
def test_the_model_compiles_without_a_graph_break(training):
    torch.compiler.reset()
    model = small_model(dropout=0.0).train(training)
    compiled = torch.compile(model, fullgraph=True, backend="eager", dynamic=True)
    for rows, source, target in [(3, 7, 6), (2, 5, 9), (1, 1, 1)]:
        inputs = ids(rows, source), ids(rows, target)
        assert_close(compiled(*inputs), model(*inputs), **CLOSE)
    torch.compiler.reset()
