"""What a learner has written is kept, and is used by all that is built on it."""

import importlib
import re
import sys

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from matplotlib import pyplot as plt
from torch.testing import assert_close

from helpers import mine
from helpers.attention import MultiHeadAttention, record_attention
from helpers.decoding import greedy_decode
from helpers.transformer import Transformer
from tools.notebooks import NOTEBOOKS, code_cells, execute, has_tag, read

pytestmark = pytest.mark.slow
SETUP = """
import math
import torch
from torch import nn
from torch.nn import functional as F
from helpers import PAD, mine
from helpers.attention import attention
from helpers.masks import padding_mask as a_mask
from lessons.lesson02 import exercises as ex02
from lessons.lesson03 import exercises as ex03
from lessons.lesson04 import exercises as ex04
"""
ATTENTION = """
def root(query):
    return math.sqrt(query.size(-1))


def scaled(query, key):
    return query @ key.transpose(-2, -1) / root(query)


def my_attention(query, key, value, mask=None):
    scores = scaled(query, key)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = F.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ value, weights
"""
HEADS = """
class MyMultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query_projection = nn.Linear(d_model, d_model)
        self.key_projection = nn.Linear(d_model, d_model)
        self.value_projection = nn.Linear(d_model, d_model)
        self.output_projection = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.unflatten(2, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q = self.split(self.query_projection(query))
        k = self.split(self.key_projection(key))
        v = self.split(self.value_projection(value))
        context, _ = attention(q, k, v, mask)
        return self.output_projection(context.transpose(1, 2).flatten(2))
"""
MASKS = """
def my_padding_mask(tokens):
    return (tokens != PAD)[:, None, None, :]


def my_decoder_mask(tokens):
    past = torch.ones(1, 1, tokens.size(1), tokens.size(1), device=tokens.device).bool()
    return my_padding_mask(tokens) & past.tril()
"""
CHECK_PADDING = "ex03.padding_mask(my_padding_mask)"
CHECK_DECODER = "ex03.decoder_mask(my_decoder_mask)"
CHECK_02 = "ex02.attention(my_attention)"
CHECK_04 = "ex04.multi_head_attention(MyMultiHeadAttention)"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Cells of a notebook, run by IPython; gives what they print."""
    monkeypatch.setenv("COURSE_MINE", str(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_transformer", raising=False)
    main = sys.modules["__main__"]
    shell = InteractiveShell(user_module=type(sys)("__main__"))
    monkeypatch.setitem(sys.modules, "__main__", shell.user_module)

    def run(*cells):
        capsys.readouterr()
        for cell in cells:
            shell.run_cell(cell, store_history=True).raise_error()
        return capsys.readouterr().out

    run(SETUP)
    yield run
    sys.modules["__main__"] = main


def file():
    return mine.path().read_text("utf-8")


def assembled(**changes):
    sizes = {"d_model": 16, "n_heads": 4, "d_ff": 32, "n_layers": 2, "dropout": 0.0}
    sizes |= {"share_embeddings": False} | changes
    module = importlib.import_module("my_transformer")
    return module, module.Transformer(module.TransformerConfig(20, 30, **sizes))


def batch():
    source, target = torch.randint(4, 20, (3, 6)), torch.randint(4, 30, (3, 5))
    source[0, 4:] = 0
    return source, target


def test_a_right_answer_is_kept_with_what_it_needs_and_nothing_else(run):
    said = run(ATTENTION, CHECK_02)
    assert "kept in my_transformer.py as attention" in said
    assert "def root(" in file() and file().endswith("\nattention = my_attention\n")
    assert ATTENTION.strip().split("\n\n\n")[1] in file()  # word for word
    assert "exercises" not in file()


def test_a_wrong_answer_changes_nothing(run):
    run(ATTENTION, CHECK_02)
    before = file()
    said = run(ATTENTION.replace("math.sqrt", "abs"), CHECK_02)
    assert "✗" in said and file() == before
    assert said.endswith("my_transformer.py still has your earlier attention\n")


def test_the_whole_model_uses_the_learners_parts_in_any_order(run):
    run(HEADS, CHECK_04, ATTENTION, CHECK_02)
    module, model = assembled()
    assert mine.parts() == ["MultiHeadAttention", "attention"]
    heads = [x for x in model.modules() if type(x).__name__ == "MyMultiHeadAttention"]
    assert len(heads) == 6
    module.attention = lambda query, key, value, mask=None: (0 * query, None)
    changed = model.encode(batch()[0])
    module.attention = module.my_attention
    assert (changed - model.encode(batch()[0])).abs().max() > 1e-3


def test_a_name_of_another_cell_is_said_and_the_part_not_kept(run):
    *helpers, own = ATTENTION.split("\n\n\n")
    said = run(*helpers, own, CHECK_02)
    assert "✓ gradients" in said and "it uses `scaled` of another cell" in said
    assert mine.parts() == []


def test_imports_of_other_cells_come_along(run):
    mask = "def my_causal_mask(length, *, device=None):\n"
    mask += "    return a_mask(xt.ones(1, length, device=device).long()) & xt.ones(\n"
    mask += "        1, 1, length, length, device=device).bool().tril()"
    said = run("import torch as xt", mask, "ex03.causal_mask(my_causal_mask)")
    assert "kept" in said
    assert "\nimport torch as xt\n" in file()
    assert "\nfrom helpers.masks import padding_mask as a_mask\n" in file()


def test_two_helpers_of_one_name_are_told_apart(run):
    heads = HEADS.replace("self.split(", "scaled(self, ")
    heads = f"def scaled(self, x):\n    return type(self).split(self, x)\n\n{heads}"
    said = run(ATTENTION, CHECK_02, heads, CHECK_04)
    assert "another `scaled` stands there" in said
    assert mine.parts() == ["attention"]


def test_another_answer_takes_the_place_and_the_old_file_stays(run):
    run(ATTENTION, CHECK_02)
    mine.path().write_text(file().replace("query @ key", "query   @ key"), "utf-8")
    before = file()
    other = ATTENTION.replace("F.softmax(scores, dim=-1)", "scores.softmax(-1)")
    assert "the file as it was is my_transformer.before.py" in run(other, CHECK_02)
    old = mine.path().with_name("my_transformer.before.py")
    assert old.read_text("utf-8") == before
    assert file().count("# ---- lesson 02") == 1 and "scores.softmax(-1)" in file()


def test_a_part_that_was_edited_by_hand_stays_until_its_cell_changes(run):
    run(ATTENTION, CHECK_02)
    edited = file().replace("query @ key", "query   @ key")
    mine.path().write_text(edited, "utf-8")
    said = run(ATTENTION, CHECK_02)
    assert "attention stays in my_transformer.py as you edited it" in said
    run(MASKS, CHECK_PADDING)
    assert file().startswith(edited) and mine.parts() == ["attention", "padding_mask"]
    assert not mine.path().with_name("my_transformer.before.py").exists()


@pytest.mark.parametrize("cells", [(CHECK_PADDING, CHECK_DECODER), (CHECK_DECODER,)])
def test_a_part_does_not_lose_what_it_uses(run, cells):
    run(MASKS, *cells)
    said = run(MASKS.replace("my_padding_mask", "padded"), "ex03.padding_mask(padded)")
    if len(cells) == 2:
        assert "decoder_mask uses `my_padding_mask`, which would be gone" in said
        with pytest.raises(mine.NotKept, match="which would be gone"):
            mine.forget("padding_mask")
    else:
        assert "kept" in said
    mine.take("decoder_mask")(torch.ones(2, 3))
    assert "decoder_mask: yours" in run("mine.take('decoder_mask')")


def test_what_the_learner_adds_stays_and_no_part_is_lost(run):
    run(ATTENTION, CHECK_02, MASKS, CHECK_PADDING)
    text = file().replace("= my_attention", "= my_attention  # mine")
    mine.path().write_text(text + "\n\nMY_OWN = 3\n", "utf-8")
    run(HEADS, CHECK_04, ATTENTION, CHECK_02)
    assert {*mine.parts()} == {"attention", "padding_mask", "MultiHeadAttention"}
    assert "MY_OWN = 3" in file()


def test_what_is_no_function_of_a_cell_is_told(run):
    part = "from functools import partial\npart = partial(my_attention)"
    said = run(ATTENTION, part, "ex02.attention(part)")
    assert "its text is not found: write a function or a class" in said


def test_a_broken_file_gets_a_message_and_the_courses_parts(run):
    run(ATTENTION, CHECK_02)
    mine.path().write_text(file() + "\ndef (:\n", "utf-8")
    said = run("found = mine.take('attention', 'MultiHeadAttention')")
    assert "my_transformer.py is left out, as it stops with SyntaxError" in said
    assert "line " in said and "attention: the course's" in said
    assert "not kept in my_transformer.py: SyntaxError" in run(HEADS, CHECK_04)


def test_take_says_whose_a_part_is(run):
    assert mine.take("MultiHeadAttention") is MultiHeadAttention  # nothing kept yet
    run(ATTENTION, CHECK_02)
    said = run("attention, heads = mine.take('attention', 'MultiHeadAttention')")
    assert said == "attention: yours\nMultiHeadAttention: the course's\n"
    said = run("decoder = mine.take('Decoder')")
    assert said == "Decoder: the course's, with your attention\n"


def test_something_stands_in_for_what_is_no_part_of_the_model(run):
    take = "found = mine.take('greedy_decode', otherwise=len)"
    assert run(take, "assert found is len") == "greedy_decode: the course's\n"
    with pytest.raises(ValueError, match="has no 'greedy_decode'"):
        mine.take("greedy_decode")


def test_the_parts_are_shown_on_the_map(run):
    assert run("mine.show()") == "yours so far: nothing yet\n"
    said = run(ATTENTION, CHECK_02, HEADS, CHECK_04, "mine.show()")
    assert said.endswith("yours so far: attention, MultiHeadAttention\n")
    assert "in colour: attention, multi-head" in plt.gca().texts[-1].get_text()
    for names in mine.ON_THE_MAP.values():
        assert mine.take(*names)


def test_a_part_can_be_forgotten(run):
    run(ATTENTION, CHECK_02, HEADS, CHECK_04)
    mine.forget("attention")
    assert mine.parts() == ["MultiHeadAttention"]
    with pytest.raises(ValueError, match="'attention' is not yours, only MultiHead"):
        mine.forget("attention")


def test_nothing_is_kept_or_read_where_it_is_off(run, monkeypatch):
    run(ATTENTION, CHECK_02)
    monkeypatch.setenv("COURSE_MINE", "off")
    assert "kept" not in run(HEADS, CHECK_04) and mine.parts() == []
    assert mine.take("attention").__module__ == "helpers.attention"


def test_the_tests_themselves_keep_nothing():
    assert mine.path() is None


def test_unless_told_otherwise_the_file_lies_next_to_the_notebooks(monkeypatch):
    monkeypatch.delenv("COURSE_MINE")
    assert mine.path() == NOTEBOOKS / "my_transformer.py"


# ------------------------------------------------------------------ what looks inside


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_twin_is_the_courses_with_the_same_numbers(run, norm_first):
    run(ATTENTION, CHECK_02, HEADS, CHECK_04)
    _, model = assembled(norm_first=norm_first)
    twin = mine.twin(model.train())
    assert type(twin) is Transformer and twin.training and model.training
    inputs = batch()
    torch.testing.assert_close(twin(*inputs), model(*inputs))


def test_no_twin_of_a_model_that_computes_something_else(run):
    run(HEADS, CHECK_04)
    _, model = assembled()
    model.encoder.layers[0].forward = lambda x, mask: x
    with pytest.raises(ValueError, match="gives other logits, by"):
        mine.twin(model)


def test_the_maps_of_a_learners_model_are_recorded(run):
    run(ATTENTION, CHECK_02, HEADS, CHECK_04)
    _, model = assembled()
    twin, inputs = mine.twin(model), batch()
    with record_attention(model) as yours:
        model(*inputs)
    with record_attention(twin) as due:
        twin(*inputs)
    assert yours.keys() == due.keys()
    for name in due:
        torch.testing.assert_close(yours[name], due[name])
    assert not any(module._forward_pre_hooks for module in model.modules())


TYPED = """positional_encoding TokenEmbedding PositionalEncoding attention padding_mask
causal_mask decoder_mask MultiHeadAttention FeedForward LayerNorm Residual EncoderLayer
Encoder DecoderLayer Decoder greedy_decode Transformer train"""


def type_answers(run, lessons):
    """Run the exercises of these solutions, as a learner types them."""
    for path in sorted(NOTEBOOKS.glob(f"solutions/{lessons}_*.ipynb")):
        imports, *cells = code_cells(read(path))[1:]
        own = [c for c in cells if has_tag(c, "exercise") or has_tag(c, "check")]
        switched_on = re.sub(r"os\.environ\[.*", "", imports.source)
        run(switched_on, *(cell.source for cell in own))


def test_the_answers_of_all_lessons_make_a_transformer_of_one_s_own(run):
    type_answers(run, "0[1-9]")
    assert mine.parts() == TYPED.split()
    module, model = assembled()
    for part in model.modules():  # all but PyTorch's own and the assembly are typed
        kind = type(part)
        mine_or_torch = kind.__name__.startswith("My") or "torch" in kind.__module__
        assert mine_or_torch or part is model, kind
    source, target = batch()
    twin = mine.twin(model)
    assert_close(twin(source, target), model(source, target))
    for write in (module.greedy_decode, greedy_decode):
        both = [write(reader, source, max_length=7) for reader in (model, twin)]
        assert torch.equal(*both)


@pytest.mark.long
def test_lessons_run_with_the_answers_of_all(run, tmp_path):
    for lessons in ("0[1-9]", "1[0-9]"):
        type_answers(run, lessons)
    kept = file()
    for path in sorted(NOTEBOOKS.glob("[01]*.ipynb")):
        execute(lesson := read(path), path.parent, COURSE_MINE=str(tmp_path))
        outputs = [o for cell in code_cells(lesson) for o in cell.outputs]
        said = "".join(output.get("text", "") for output in outputs)
        assert not re.findall(r"^\w+: the course's.*$", said, re.MULTILINE)
    assert file() == kept
