"""The model of the one page is the course's: same names, same weights, same logits."""

import ast
from types import SimpleNamespace

import pytest
import torch

from helpers import PAD, attention
from helpers.transformer import Transformer, TransformerConfig
from tools.notebooks import NOTEBOOKS, code_cells, has_tag, read

pytestmark = pytest.mark.slow
SIZES = {"source_vocab": 11, "target_vocab": 13, "d_model": 32, "n_heads": 4}
SIZES |= {"d_ff": 48, "n_layers": 2, "dropout": 0.0, "max_length": 9}
SOURCE = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]])
TARGET = torch.tensor([[2, 8, 9], [2, 10, 0]])


def definitions():
    """The page's names, as far as its imports, classes and functions give them."""
    cells = code_cells(read(NOTEBOOKS / "on_one_page.ipynb"))
    texts = [cell.source for cell in cells if not has_tag(cell, "setup")]
    kept = ast.Import, ast.ImportFrom, ast.ClassDef, ast.FunctionDef
    nodes = [n for text in texts for n in ast.parse(text).body if isinstance(n, kept)]
    names = {"PAD": PAD}
    exec(compile(ast.Module(nodes, []), "on_one_page", "exec"), names)
    return names


@pytest.mark.parametrize("part", [None, "attention", "MultiHeadAttention"])
def test_the_page_has_the_course_s_model_and_takes_its_parts(part):
    page = definitions()
    if part:
        page[part] = getattr(attention, part)
    torch.manual_seed(0)
    course = Transformer(TransformerConfig(**SIZES, share_embeddings=False))
    own = page["Transformer"](SimpleNamespace(**SIZES, norm_first=False))
    own.load_state_dict(course.state_dict(), strict=True)
    logits = own(SOURCE, TARGET)
    torch.testing.assert_close(logits, course(SOURCE, TARGET), rtol=0, atol=1e-5)
