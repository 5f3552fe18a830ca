"""The check-up as an engineer meets it: interfaces, reports, the shell, a test."""

import json
import random
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from faults import FAULTS, SOUND
from faults.evidence import examined
from faults.small_decoders import SmallGPT
from faults.small_huggingface import SEQ2SEQ, T5, hugging_face
from helpers import PAD
from lessons.lesson15.breaking import MUTANTS, small_model
from transformer_checkup import __main__ as shell
from transformer_checkup import examine, numerics, properties
from transformer_checkup.adapters import of_hugging_face
from transformer_checkup.hooks import trace
from transformer_checkup.leaks import changes_by_word
from transformer_checkup.learning import gradients_of, unreached
from transformer_checkup.properties import CHECKS, Subject, assert_sound, failing
from transformer_checkup.report import chosen, report_on
from transformer_checkup.structure import blocks, is_attention

CHECKUP = Path(__file__).parents[1]
SLOW = "overfits one batch"
SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}


def quick(subject):
    """The same, without the check that trains."""
    return replace(subject, skip=(*subject.skip, SLOW))


def stack(vocab=30, features=32):
    """A sound little decoder without positions or attention: a recurrent network."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.read = nn.Embedding(vocab, features)
            self.network = nn.GRU(features, features, batch_first=True)
            self.write = nn.Linear(features, vocab)

        def forward(self, tokens):
            return self.write(self.network(self.read(tokens))[0])

    return Recurrent()


# -- sound models that look odd --------------------------------------------------------


MOVED_BY_ROUNDING = ["causal", "padding invariant", "residuals carry", "order aware"]
MOVED_BY_ROUNDING += ["all parameters learn", "finite in half precision"]


def small_gpt(change=lambda model: None, **options):
    """The small GPT as a decoder, changed."""
    torch.manual_seed(0)
    model = SmallGPT(30)
    change(model)
    return Subject(model, 30, kind="decoder", **options)


def zero_start(model):
    for block in model.blocks:
        nn.init.zeros_(block.attn.c_proj.weight)
        nn.init.zeros_(block.mlp[2].weight)


def freeze(model):
    model.requires_grad_(False)
    model.ln_f.requires_grad_(True)


def test_matrices_that_start_at_zero_learn_from_the_second_step_on():
    assert properties.all_parameters_learn(small_gpt(zero_start)).holds
    gated = examined(FAULTS["a gate taken by .data"])
    assert not properties.all_parameters_learn(gated).holds


def test_a_frozen_base_need_not_learn_by_heart():
    assert properties.overfits_one_batch(small_gpt(freeze)).holds is None
    words = small_gpt(lambda model: model.wte.weight.requires_grad_(False))
    assert properties.overfits_one_batch(words).holds is None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_16_bits_are_examined_in_32(dtype):
    subject = small_gpt(lambda model: model.to(dtype))
    report = report_on(subject, only=["runs", *MOVED_BY_ROUNDING])
    assert report.sound, report.text
    assert "examined in 32" in report.verdicts[0].text
    assert {p.dtype for p in subject.module.parameters()} == {dtype}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_are_saved_and_loaded_into_another_build(dtype):
    def build():
        return small_gpt(lambda model: model.to(dtype), rebuild=build)

    assert properties.state_is_saved(build()).holds


def test_a_dtype_that_kills_the_process_is_left_out(monkeypatch, tmp_path):
    machine = tmp_path / "cpuinfo"
    machine.write_text("flags : amx_bf16", encoding="utf-8")
    monkeypatch.setattr(numerics, "Path", lambda _: machine)
    monkeypatch.setattr(numerics.sys, "executable", "false")
    survives = numerics._survives.__wrapped__  # without its cache
    monkeypatch.setattr(numerics, "_survives", survives)
    said = properties.dtype_moves(small_gpt()).sentence
    assert "float16" in said and "bfloat16" not in said
    machine.write_text("flags : sse", encoding="utf-8")
    assert survives(torch.bfloat16)


def test_a_model_that_is_frozen_is_told_to_be():
    subject = small_gpt(lambda model: model.requires_grad_(False))
    verdict = properties.all_parameters_learn(subject)
    assert verdict.holds is None and "frozen" in verdict.sentence


def test_an_expert_that_no_token_of_a_small_batch_chose_learns():
    subject = of_hugging_face(SOUND["SwitchTransformers"].build(50, 1), seed=1)
    idle = unreached(gradients_of(subject))
    assert [name for name in idle if ".experts." in name] == idle != []
    assert properties.all_parameters_learn(subject).holds


@pytest.mark.slow
def test_experts_that_get_no_token_are_told():
    """NLLB-MoE of transformers 5.23 takes a mask for the experts' numbers."""
    sizes = {"num_experts": 4, "encoder_sparse_step": 2, "decoder_sparse_step": 2}
    kind = "NllbMoeForConditionalGeneration", "NllbMoeConfig"
    model = hugging_face(*kind, expert_capacity=64, **sizes, **SEQ2SEQ)(30, 0)
    said = properties.all_parameters_learn(of_hugging_face(model)).sentence
    assert said.endswith("is all of `model.encoder.layers.1.ffn.experts.expert_2`")


def test_rows_for_distances_that_no_sentence_has_learn():
    subject = of_hugging_face(SOUND["ProphetNet, put right"].build(200, 0))
    assert properties.all_parameters_learn(subject).holds


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_attention_of_one_side_is_asked_for(kind):
    def attention(tokens):
        length = tokens.size(1)
        weights = (tokens != PAD).float()[:, None, None].expand(-1, 2, length, -1)
        weights = weights.tril() if kind == "decoder" else weights
        weights = weights + (weights.sum(-1, keepdim=True) == 0) / length
        return {kind: [weights / weights.sum(-1, keepdim=True)]}

    sound = Subject(stack(), 30, kind=kind, attention=attention)
    assert properties.attention_is_sound(sound).holds
    for wrong, said in (
        # A wider map may come from a model that pads its input: it is judged as it is.
        ({kind: [torch.ones(4, 1, 9, 9) / 9]}, "hidden"),
        ({kind: [torch.ones(4, 1, 7, 7) / 7]}, "(4, 1, 7, 7)"),
        ({"cross": [torch.ones(4, 1, 9, 9)]}, "cross"),
    ):
        verdict = properties.attention_is_sound(
            replace(sound, attention=lambda x, maps=wrong: maps)
        )
        assert verdict.holds is False and said in verdict.sentence


def test_steps_of_a_decoder_are_asked_for():
    model = SOUND["Llama"].build(30, 0)
    assert properties.steps_equal_parallel(of_hugging_face(model)).holds
    wrong = of_hugging_face(model, steps=lambda tokens: tokens)
    verdict = properties.steps_equal_parallel(wrong)
    assert verdict.holds is False and "`steps` gives (4, 8)" in verdict.sentence


class Bare(nn.Module):
    """An attention as `Look` and others are named, its residual outside of it."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        q, k, v = (part(x)[:, None] for part in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True)[:, 0])


def test_an_attention_in_a_list_is_no_layer():
    class Outside(nn.Module):
        def __init__(self):
            super().__init__()
            self.read, self.write = nn.Embedding(30, 32), nn.Linear(32, 30)
            self.mixers = nn.ModuleList(Bare() for _ in range(2))

        def forward(self, tokens):
            x = self.read(tokens)
            for mixer in self.mixers:
                x = x + mixer(x)
            return self.write(x)

    subject = Subject(Outside(), 30, kind="decoder")
    assert blocks(subject.module) == [] and is_attention("", subject.module.mixers[0])
    assert properties.residuals_carry(subject).holds is None


def test_a_dict_of_layers_is_a_stack():
    model = SOUND["plain GPT"].build(30, 0)
    names = [block.name for block in blocks(model)]
    assert names == ["body.0", "body.1"]
    model.body = nn.ModuleDict({"one": model.body[0], "two": model.body[1]})
    assert [block.name for block in blocks(model)] == ["body.one", "body.two"]


def test_a_rate_of_dropout_may_have_any_name():
    assert properties.modes_differ_by_dropout(small_gpt()).holds


def test_a_few_positions_may_move_in_16_bits():
    class Ties(nn.Module):
        """Its last position goes elsewhere in 16 bits."""

        def __init__(self):
            super().__init__()
            self.inner = stack()

        def forward(self, tokens):
            logits = self.inner(tokens)
            if logits.dtype == torch.bfloat16:
                logits[:, -1] = -logits[:, -1]
            return logits

    assert properties.dtype_moves(Subject(Ties(), 30, kind="decoder")).holds


def test_weights_are_tied_in_a_layer_if_that_is_said():
    model = FAULTS["one norm in both places of a layer"].build(30)
    pair = ("layers.1.norm1.gain", "layers.1.norm2.gain")
    subject = Subject(model, 30, kind="decoder", tied=(pair,))
    assert properties.weights_shared_as_meant(subject).holds


class Summing(nn.Module):
    """Running sums by a matrix product, in double or as told."""

    def __init__(self, dtype=None):
        super().__init__()
        self.read, self.dtype = nn.Embedding(30, 30), dtype

    def forward(self, tokens):
        x = self.read(tokens)
        inner = x.to(self.dtype or x.dtype)
        return torch.fft.ifft(torch.fft.fft(inner.cumsum(1), dim=1), dim=1).real.to(x)


@pytest.mark.parametrize("dtype", [None, torch.float32])
def test_rounding_is_no_look_at_the_future(dtype):
    subject = Subject(Summing(dtype), 30, kind="decoder")
    changes = changes_by_word(subject, *subject.sentences()).triu(1)
    assert 0 < changes.max() < 1e-5
    assert properties.causal(subject).holds


# -- what a model cannot be asked ------------------------------------------------------


def test_a_check_says_on_which_other_it_rests():
    report = report_on(quick(MUTANTS["dropout stays on in eval mode"].build()))
    assert [verdict.name for verdict in report.failed] == ["same twice"]
    (causal,) = (verdict for verdict in report if verdict.name == "causal")
    assert causal.holds is None and "“same twice”" in causal.text
    assert report.suspects[0].where == "encoder.layers.0.feed_forward"
    assert "dropout" in report.suspects[0].what


def test_what_is_skipped_is_said_to_be():
    subject = Subject(stack(), 30, kind="decoder", skip=("order aware",))
    assert "skipped" in properties.order_aware(subject).sentence
    with pytest.raises(ValueError, match="no check 'order'"):
        failing(Subject(stack(), 30, kind="decoder", skip=("order",)))


def test_a_decoder_is_asked_for_no_source():
    subject = Subject(stack(), 30, kind="decoder")
    assert {*chosen(subject)} == {*CHECKS} - {"layers read the source"}
    assert CHECKS["layers read the source"](subject).holds is None


@pytest.mark.parametrize(
    ("only", "error"),
    [
        ("causal", r"\('causal',\)"),
        (["cause"], "no check 'cause'"),
        (["layers read the source"], "not asked of a model of the kind 'decoder'"),
    ],
)
def test_only_what_there_is_can_be_asked(only, error):
    with pytest.raises(ValueError, match=error):
        assert_sound(Subject(stack(), 30, kind="decoder"), only=only)


def test_a_model_is_handed_over_as_a_subject():
    with pytest.raises(TypeError, match="a Recurrent is no Subject"):
        assert_sound(stack())


def test_what_asks_nothing_is_not_sound():
    subject = Subject(stack(), 30, kind="decoder")
    with pytest.raises(AssertionError, match="nothing could be judged"):
        assert_sound(subject, only=["steps equal parallel"])


def test_a_report_names_what_was_not_judged():
    subject = Subject(stack(), 30, kind="decoder", skip=("runs",))
    report = report_on(subject, only=["runs", "residuals carry", "finite"])
    told = "1 of 3", "could not be judged: residuals carry", "skipped: runs"
    assert all(part in report.summary for part in told)


# -- interfaces ------------------------------------------------------------------------


class Raw(nn.Module):
    """Gives something that is no tensor of logits."""

    def __init__(self, give):
        super().__init__()
        self.inner, self.give = stack(), give

    def forward(self, tokens):
        return self.give(self.inner(tokens))


@pytest.mark.parametrize(
    ("give", "said"),
    [
        (
            lambda logits: {"logits": logits},
            'lambda tokens: my_model(tokens)["logits"]',
        ),
        (
            lambda logits: SimpleNamespace(logits=logits),
            "`lambda tokens: my_model(tokens).logits`, with `module=my_model`",
        ),
        (lambda logits: (logits, None), "`lambda tokens: my_model(tokens)[0]`"),
        (lambda logits: logits.transpose(0, 1), "`.transpose(0, 1)`"),
        (lambda logits: logits[:, -1:], "every position"),
        (lambda logits: logits[..., :9], "source_vocab=9"),
        (lambda logits: None, "`return`"),
        (lambda logits: logits[99], "IndexError: index 99 is out of bounds"),
    ],
)
def test_a_wrong_interface_gets_an_error_that_shows_the_right_one(give, said):
    sentence = properties.runs(Subject(Raw(give), 30, kind="decoder")).sentence
    assert said in sentence
    assert "ids go up to" not in sentence


def test_a_wrong_kind_is_told():
    for model, kind in ((small_model(0), "decoder"), (stack(), "encoder-decoder")):
        sentence = properties.runs(Subject(model, 50, 60, kind=kind)).sentence
        assert "kind=" in sentence


def test_a_model_without_its_module_may_drop_in_eval_mode():
    model = SmallGPT(30)
    verdict = properties.same_twice(Subject(lambda ids: model(ids), 30, kind="decoder"))
    assert "module=my_model" in verdict.suspects[0].text


def test_swapped_vocabularies_are_told():
    report = report_on(Subject(small_model(0), 60, 50))
    runs, causal = (v for v in report if v.name in ("runs", "causal"))
    assert "swapped?" in runs.text and causal.holds is None
    marks = [line.split()[0] for line in report.text.splitlines()]
    assert marks == ["✗", "○", "1"]  # one line for the 23 others, and the summary
    assert report.summary in repr(report)


def test_too_large_a_vocabulary_is_told():
    said = properties.runs(Subject(stack(), 200, kind="decoder")).sentence
    assert "ids go up to 199" in said


def test_the_end_of_a_learned_table_is_told_and_is_no_fault():
    model = SmallGPT(30)
    model.wpe = nn.Embedding(20, 32)
    verdict = properties.length_generic(Subject(model, 30, kind="decoder"))
    assert verdict.holds is None and "longest=20" in verdict.sentence
    asked = Subject(model, 30, kind="decoder", longest=30)
    verdict = properties.length_generic(asked)
    assert verdict.holds is False and verdict.suspects[0].where == "wpe"
    assert properties.length_generic(replace(asked, longest=20)).holds
    refuses = Subject(small_model(0, max_length=32), 50, 60)
    assert "it takes 32 tokens at most" in properties.length_generic(refuses).sentence


def test_a_mask_of_fixed_size_is_a_fault():
    verdict = properties.length_generic(MUTANTS["a causal mask of fixed size"].build())
    assert verdict.holds is False and "16 tokens" in verdict.sentence
    assert verdict.suspects[0].where == ""


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"kind": "both"}, "kind .*: 'both'"),
        ({"source_vocab": 3}, "source_vocab .* at least 8"),
        ({"model": 3}, "model .* int"),
        ({"module": len}, "module .* builtin_function"),
        ({"longest": 0}, "longest .* 0"),
        ({"unused": "network"}, "unused .* 'network'"),
        ({"skip": (3,)}, r"skip .* \(3,\)"),
        ({"model": nn.GRU}, r"model is a class: .* GRU\(…\)"),
        ({"source_vocab": "100"}, "source_vocab .* '100'"),
        ({"target_vocab": 9.0}, "target_vocab .* 9.0"),
        ({"seed": "a"}, "seed .* 'a'"),
        ({"steps": 3}, "steps .* 3"),
        ({"steps": len, "kind": "encoder"}, "steps is not used"),
        ({"unused": ("net", "reed")}, "'reed'; there are read, "),
        ({"tied": (("read.weight", "rite.weight"),)}, "'rite.weight'; .* write.weight"),
    ],
)
def test_a_subject_that_makes_no_sense_is_refused(options, error):
    with pytest.raises(ValueError, match=error):
        Subject(**{"model": stack(), "source_vocab": 30, **options})


NARROW = {"n_head": 4, "n_layer": 2, "n_heads": 4, "n_layers": 2}
BOTH_WAYS = {  # although they have a head of a language model
    "XLM": hugging_face("XLMWithLMHeadModel", "XLMConfig", emb_dim=32, **NARROW),
    "XLNet": hugging_face("XLNetLMHeadModel", "XLNetConfig", d_model=32, **NARROW),
}


@pytest.mark.parametrize(
    ("name", "kind", "tied"),
    [
        ("Marian", "encoder-decoder", True),
        ("T5", "encoder-decoder", True),
        ("GPT-2", "decoder", True),
        ("Llama", "decoder", False),
        ("BERT", "encoder", True),
        ("XLM", "encoder", True),
        ("XLNet", "encoder", True),
    ],
)
def test_hugging_face_s_models_say_what_they_are(name, kind, tied):
    build = BOTH_WAYS[name] if name in BOTH_WAYS else SOUND[name].build
    subject = of_hugging_face(build(30, 0), seed=3)
    assert (subject.kind, bool(subject.tied)) == (kind, tied)
    assert (subject.source_vocab, subject.seed) == (30, 3)
    assert properties.runs(subject).holds


def test_what_is_no_model_of_transformers_is_refused():
    with pytest.raises(ValueError, match="a Recurrent is no model of transformers"):
        of_hugging_face(stack())
    with pytest.raises(ValueError, match="T5Model gives states, no logits: take the"):
        of_hugging_face(hugging_face("T5Model", "T5Config", **T5)(30, 0))


# -- inside ----------------------------------------------------------------------------


def test_blocks_are_the_layers_with_attention_and_no_lists_inside_them():
    names = {
        "Marian": ["model.encoder.layers.0", "model.encoder.layers.1"],
        "T5": ["encoder.block.0", "encoder.block.1"],
        "BERT": ["bert.encoder.layer.0", "bert.encoder.layer.1"],
        "reading C, the Annotated Transformer": [
            "model.encoder.layers.0",
            "model.encoder.layers.1",
        ],
    }
    for name, due in names.items():
        found = [b.name for b in blocks(SOUND[name].build(30, 0))]
        assert found[:2] == due and len(found) in (2, 4), name
    assert blocks(stack()) == []


def test_a_trace_ends_with_the_whole_model():
    subject = Subject(small_model(0), 50, 60)
    calls = trace(subject, *subject.sentences())
    assert calls[0].name == "source_embedding" and calls[-1].name == ""
    assert calls[-1].outputs[0].shape == (4, 8, 60)
    assert not any(m._forward_hooks for m in subject.module.modules())


# -- use -------------------------------------------------------------------------------


def test_it_needs_torch_alone():
    names = ("__main__", "adapters", "properties")
    code = "".join(f"import transformer_checkup.{name}\n" for name in names)
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}import sys; print(*sys.modules)"],
        cwd=CHECKUP,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in ran.stdout.split()}
    assert {"torch", "transformer_checkup"} <= loaded
    foreign = {"helpers", "lessons", "matplotlib", "pandas", "seaborn", "transformers"}
    assert loaded & foreign == set()


def test_without_matplotlib_there_is_no_picture(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    report = examine(MUTANTS["no causal mask"].build(), only=["runs", "causal"])
    said = capsys.readouterr().out.splitlines()
    assert "ModuleNotFoundError" in said[-2] and said[-1] == report.summary


def reported(text):
    """The lines, without the numbers that depend on the machine."""
    return re.sub(r"≈ \S+", "≈", text).splitlines()


def test_the_report_in_readme_is_what_its_code_prints(capsys):
    readme = (CHECKUP / "README.md").read_text("utf-8")
    code, shown = re.search(
        r"```python\n(.*?)```\n```\n(.*?)```", readme, re.S
    ).groups()
    exec(code, {})
    said = reported(capsys.readouterr().out)
    assert [line for line in said if "no picture" not in line] == reported(shown)


def test_everything_is_left_as_it_was():
    model = FAULTS["batch norm for layer norm"].build()
    model.core.encoder.eval()
    before = {name: x.clone() for name, x in model.state_dict().items()}
    ids = {name: id(x) for name, x in model.named_parameters()}
    modes = [m.training for m in model.modules()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    report_on(Subject(model, 60))
    assert all(torch.equal(x, before[n]) for n, x in model.state_dict().items())
    assert {name: id(x) for name, x in model.named_parameters()} == ids
    assert [m.training for m in model.modules()] == modes
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]
    dropouts = {m.p for m in model.modules() if isinstance(m, nn.Dropout)}
    assert dropouts == {0.1}


def test_a_test_may_assert_soundness():
    assert assert_sound(quick(Subject(small_model(0), 50, 60))).sound
    with pytest.raises(AssertionError) as raised:
        assert_sound(MUTANTS["no causal mask"].build(), only=["runs", "causal"])
    _, runs, causal, suspect, *_ = str(raised.value).splitlines()
    assert runs.startswith("✓ runs: ") and causal.startswith("✗ causal: ")
    assert "`decoder.layers.0.self_attention`" in suspect


@pytest.fixture
def from_shell(tmp_path, monkeypatch, capsys):
    """Runs the command line on a module with this text; its status and what it said."""

    def run(text, *options):
        (tmp_path / "candidate.py").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "candidate", raising=False)
        status = shell.main(["candidate:build", *options, "--only", "causal"])
        said = capsys.readouterr()
        return status, said.out + said.err

    return run


SOUND_TEXT = (
    "from lessons.lesson15.breaking import small_model\nbuild = lambda: small_model(0)"
)
FAULTY_TEXT = (
    "from lessons.lesson15.breaking import MUTANTS\n"
    "build = MUTANTS['no causal mask'].build"
)


def test_the_shell_gets_a_status(from_shell):
    status, said = from_shell(SOUND_TEXT)
    assert status == 0 and "✓ causal" in said
    status, said = from_shell(FAULTY_TEXT)
    assert status == 1 and "✗ causal" in said
    assert from_shell(FAULTY_TEXT, "--skip", "causal")[0] == 2


def test_programs_read_the_report(from_shell):
    status, said = from_shell(FAULTY_TEXT, "--json", "--only", "runs")
    data = json.loads(said)
    assert (status, data["sound"]) == (1, False)
    assert [check["holds"] for check in data["checks"]] == [True, False]
    assert (
        data["checks"][1]["suspects"][0]["where"] == "decoder.layers.0.self_attention"
    )


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("", (), "cannot be imported"),
        ("from torch import nn\nbuild = lambda: nn.Linear(2, 2)", (), "--vocab"),
        ("def build(): raise SystemExit('no file')", (), "SystemExit: no file"),
        (FAULTY_TEXT, ("--kind", "decoder"), "says its own kind"),
        ("from torch import nn\nbuild = lambda: nn.GRU", ("--vocab", "9"), "GRU(…)"),
        (SOUND_TEXT, ("--skip", "x"), "no check 'x'"),
        ("def build(): {}['x']", (), "KeyError: 'x'"),
        ("def build(:", (), "SyntaxError: invalid syntax"),
    ],
)
def test_the_shell_says_why_there_is_nothing_to_examine(
    from_shell, text, options, error
):
    status, said = from_shell(text, *options)
    assert status == 2 and said.startswith("candidate:build: ") and error in said


def test_the_shell_wants_a_function():
    with pytest.raises(ValueError, match=r"write package\.module:function"):
        shell.imported("helpers.transformer")
