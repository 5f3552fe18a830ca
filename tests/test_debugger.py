"""The debugger as an engineer meets it: interfaces, reports, the shell, a test."""

import random
import sys

import numpy as np
import pytest
import torch
from torch import nn

from helpers.debugger import __main__ as shell
from helpers.debugger import properties
from helpers.debugger.adapters import of_annotated, of_d2l, of_hugging_face, of_torch
from helpers.debugger.breaking import MUTANTS, small_model
from helpers.debugger.evidence import names_it, subject_of
from helpers.debugger.faults import FAULTS, SOUND
from helpers.debugger.hooks import trace
from helpers.debugger.properties import CHECKS, Subject, assert_sound, failing
from helpers.debugger.report import report_on
from helpers.debugger.structure import blocks
from helpers.interop.d2l import import_d2l
from helpers.positions import PositionalEncoding, TokenEmbedding
from helpers.readings import build_reading

QUICK = [name for name in CHECKS if name != "overfits one batch"]
SIZES = {"d_model": 32, "n_heads": 4, "d_ff": 64, "n_layers": 2}


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


# -- faults and sound models -----------------------------------------------------------

FOUND = [fault for fault in FAULTS.values() if not fault.unseen]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FOUND, ids=[fault.name for fault in FOUND])
def test_a_fault_is_found_with_the_right_place_among_the_first_two(fault):
    report = report_on(subject_of(fault.specimen, fault.build()), only=QUICK)
    assert names_it(fault, report.suspects[:2]), report.text


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault", [f for f in FAULTS.values() if f.unseen], ids=lambda fault: fault.name
)
def test_what_is_out_of_reach_passes(fault):
    assert report_on(subject_of(fault.specimen, fault.build()), only=QUICK).sound


@pytest.mark.slow
@pytest.mark.parametrize("specimen", SOUND.values(), ids=SOUND)
def test_a_sound_model_fails_nothing(specimen, seed):
    subject = subject_of(specimen, specimen.build(20, seed), seed=seed)
    assert [verdict.text for verdict in report_on(subject).failed] == []


def sentence(fault, check):
    """What a check says of a fault, and the first suspect that it names."""
    verdict = CHECKS[check](subject_of(FAULTS[fault].specimen, FAULTS[fault].build()))
    return verdict.sentence, verdict.suspects[0].text if verdict.suspects else None


def test_nan_is_told_first_and_where_it_arises():
    said, suspect = sentence("0 · -inf as padding mask", "finite")
    assert said == "4 of 4 sentences get NaN or infinity, without padding"
    assert suspect == (
        "`encoder.layers.0.self_attention`: a mask that is multiplied by -inf: 0 · "
        "-inf is NaN; use `masked_fill`"
    )


def test_a_leak_is_told_with_its_module():
    said, suspect = sentence("GPT-2's second layer sees the future", "causal")
    assert said.endswith("it sees the future, first in `transformer.h.1.attn`")
    assert suspect == (
        "`transformer.h.1.attn`: its causal mask is missing, too wide, turned round, "
        "or without effect"
    )


def test_a_lost_residual_is_told_with_its_sublayer():
    said, suspect = sentence("one lost residual, norm first", "residuals carry")
    assert said == (
        "once the sublayers of `decoder.layers.1` give constants, its output no longer "
        "depends on its input"
    )
    assert suspect == (
        "`decoder.layers.1.cross_attention`: its residual connection is lost: `x +` is "
        "missing around it"
    )


def test_the_decoder_s_positions_are_asked_for_in_its_first_layer():
    said, suspect = sentence("no positions in the decoder", "order aware")
    assert said == (
        "two words of the target exchanged give the same at its end, in "
        "`decoder.layers.0`: only the causal mask tells their order"
    )
    assert suspect == (
        "`target_embedding`: the target's positions are not added behind it, or all "
        "are the same"
    )


def test_logits_that_come_late_are_told():
    said, _ = sentence("logits one place late", "reads its own token")
    assert said == (
        "no position's logits move with its own token, but those after it do: they "
        "come one place late"
    )


def test_probabilities_are_told_from_logits():
    said, suspect = sentence("probabilities for log-probabilities", "gives logits")
    assert said == (
        "at every position the output is positive and sums to one: these are "
        "probabilities, not logits"
    )
    assert suspect == (
        "`model.generator`: its softmax: the loss takes another, so give it logits"
    )


def test_what_leaves_the_dtype_is_named():
    said, suspect = sentence("d2l's table is no buffer", "dtype moves")
    assert said.startswith("moved to bfloat16, the model stops on source (4, 9), ")
    assert suspect == (
        "`encoder.pos_encoding`: it leaves the model's dtype: a table that is no "
        "buffer, or `.float()`"
    )


def test_a_whole_module_without_gradient_is_named():
    said, suspect = sentence("memory detached", "all parameters learn")
    assert said.endswith("that is all of `source_embedding`")
    assert suspect.startswith(
        "`source_embedding`: no gradient comes back: a `detach()`"
    )


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "GPT-2's blocks are one block",
            "transformer.h.0 and transformer.h.1 are the same module",
        ),
        (
            "one feed-forward for all annotated layers",
            "model.encoder.layers.0 and model.encoder.layers.1 share 4 parameters, "
            "feed_forward.w_1.weight among them",
        ),
        (
            "GPT-2's head untied",
            "lm_head.weight and transformer.wte.weight should be one parameter and are "
            "two",
        ),
        (
            "the annotated layers start as copies",
            "the layers of model.encoder.layers start out equal",
        ),
    ],
)
def test_weights_that_are_shared_wrongly_are_named(fault, said):
    assert sentence(fault, "weights shared as meant")[0] == said


def test_a_batch_norm_is_found_in_train_mode():
    said, suspect = sentence("batch norm for layer norm", "modes differ by dropout")
    assert said.endswith("first in `core.decoder.layers.0.norm1.inner`")
    assert suspect == (
        "`core.decoder.layers.0.norm1.inner`: a batch norm: in train mode padding and "
        "neighbours move its mean"
    )


# -- what a model cannot be asked ------------------------------------------------------


def test_a_check_says_on_which_other_it_rests():
    report = report_on(MUTANTS["dropout stays on in eval mode"].build(), only=QUICK)
    assert [verdict.name for verdict in report.failed] == ["same twice"]
    (causal,) = (verdict for verdict in report if verdict.name == "causal")
    assert causal.text == "causal: cannot be told while “same twice” fails"
    assert report.suspects[0].text == (
        "`encoder.layers.0.feed_forward`: dropout that `eval()` does not switch off, "
        "as `F.dropout(x, p)` alone"
    )


def test_what_is_skipped_is_said_to_be():
    subject = Subject(stack(), 30, kind="decoder", skip=("order aware",))
    assert properties.order_aware(subject).sentence == "skipped, as was asked"
    with pytest.raises(ValueError, match="no check 'order'; they are runs, finite, "):
        failing(Subject(stack(), 30, kind="decoder", skip=("order",)))


def test_a_decoder_is_asked_for_no_source():
    names = {v.name for v in report_on(Subject(stack(), 30, kind="decoder"))}
    assert names == {*CHECKS} - {"steps equal parallel", "attention is sound"}
    verdict = CHECKS["steps equal parallel"](Subject(stack(), 30, kind="decoder"))
    assert verdict.sentence == "not asked of a model of the kind 'decoder'"


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
        (lambda logits: {"logits": logits}, "the model gives dict where logits"),
        (lambda logits: logits.transpose(0, 1), "the model gives (8, 4, 30) where"),
        (
            lambda logits: logits[:, :-1],
            "the model gives (4, 7, 30) where logits (4, 8",
        ),
    ],
)
def test_a_wrong_interface_gets_an_error_that_shows_the_right_one(give, said):
    verdict = properties.runs(Subject(Raw(give), 30, kind="decoder"))
    assert said in verdict.sentence
    assert verdict.sentence.endswith(
        "a model of this kind is handed over as "
        "`lambda tokens: my_model(tokens).logits`"
    )


def test_swapped_vocabularies_are_told():
    report = report_on(Subject(small_model(0), 60, 50), only=["runs", "causal"])
    runs, causal = report
    assert "with the two vocabularies exchanged it runs: are they swapped?" in runs.text
    assert causal.text == "causal: cannot be told while “runs” fails"


def test_too_large_a_vocabulary_is_told():
    said = properties.runs(Subject(stack(), 200, kind="decoder")).sentence
    assert "ids go up to 199 and 199: are these the sizes of its vocabularies" in said


def test_the_end_of_a_learned_table_is_told_and_is_no_fault():
    model = SOUND["GPT-2"].build(20, 0)
    verdict = properties.length_generic(of_hugging_face(model, longest=70))
    assert (verdict.holds, verdict.sentence) == (
        None,
        "it takes 64 tokens at most: say longest=64 if so meant",
    )
    assert properties.length_generic(of_hugging_face(model, longest=64)).holds
    refuses = Subject(small_model(0, max_length=32), 50, 60)
    assert "it takes 32 tokens at most" in properties.length_generic(refuses).sentence


def test_a_mask_of_fixed_size_is_a_fault():
    verdict = properties.length_generic(MUTANTS["a causal mask of fixed size"].build())
    assert verdict.sentence.endswith("dimension 3; 16 tokens are the most it takes")
    assert verdict.suspects[0].text == (
        "the model's own `forward`: a mask or a table of fixed size, too short for "
        "longer sentences"
    )


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (
            {"kind": "both"},
            "kind must be one of encoder-decoder, decoder, encoder: 'both'",
        ),
        (
            {"source_vocab": 3},
            "source_vocab must be at least 8, four words beside PAD, ",
        ),
        ({"model": 3}, "model must be a function of ids, not a int"),
        ({"module": len}, "module must be an nn.Module, not a builtin_function"),
    ],
)
def test_a_subject_that_makes_no_sense_is_refused(options, error):
    with pytest.raises(ValueError, match=error):
        Subject(**{"model": stack(), "source_vocab": 30, **options})


@pytest.mark.parametrize(
    ("name", "kind", "tied"),
    [
        ("Marian", "encoder-decoder", True),
        ("T5", "encoder-decoder", True),
        ("GPT-2", "decoder", True),
        ("Llama", "decoder", False),
        ("BERT", "encoder", True),
    ],
)
def test_hugging_face_s_models_say_what_they_are(name, kind, tied):
    subject = of_hugging_face(SOUND[name].build(30, 0), seed=3)
    assert (subject.kind, bool(subject.tied)) == (kind, tied)
    assert (subject.source_vocab, subject.seed) == (30, 3)
    assert properties.runs(subject).holds


def test_pytorch_s_module_between_embeddings_is_sound():
    core = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)
    embeds = [
        nn.Sequential(
            TokenEmbedding(30, 32), PositionalEncoding(32, dropout=0.0, max_length=50)
        )
        for _ in range(2)
    ]
    subject = of_torch(core, *embeds, nn.Linear(32, 30), source_vocab=30)
    assert failing(subject, QUICK) == ()


def test_d2l_s_and_the_annotated_interface():
    blocks_ = build_reading("B", 30, 30, **SIZES, dropout=0.0)
    d2l = import_d2l().EncoderDecoder(blocks_.encoder, blocks_.decoder)
    assert failing(of_d2l(d2l, 30), QUICK) == ()
    annotated = build_reading("C", 30, 30, **SIZES, dropout=0.0).model
    assert failing(of_annotated(annotated, 30), QUICK) == ()


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
    assert assert_sound(Subject(small_model(0), 50, 60), only=QUICK).sound
    with pytest.raises(AssertionError) as raised:
        assert_sound(MUTANTS["no causal mask"].build(), only=["runs", "causal"])
    first, runs, causal, suspect, *_ = str(raised.value).splitlines()
    assert first == "this Transformer is not sound"
    assert runs == "✓ runs: it takes ids and gives logits of the right shape"
    assert causal.startswith("✗ causal: a new token at position")
    assert suspect.startswith(
        "    look at `decoder.layers.0.self_attention`: its causal"
    )


@pytest.fixture
def examined(tmp_path, monkeypatch, capsys):
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
    "from helpers.debugger.breaking import small_model\nbuild = lambda: small_model(0)"
)
FAULTY_TEXT = (
    "from helpers.debugger.breaking import MUTANTS\n"
    "build = MUTANTS['no causal mask'].build"
)


def test_the_shell_gets_a_status(examined):
    status, said = examined(SOUND_TEXT)
    assert status == 0 and said.splitlines()[-1] == "1 of 1 checks hold, none fails"
    status, said = examined(FAULTY_TEXT)
    assert status == 1 and "✗ causal: a new token" in said


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("", (), "candidate:build: cannot be imported: module 'candidate' has no"),
        (
            "from torch import nn\nbuild = lambda: nn.Linear(2, 2)",
            (),
            "candidate:build: how large is its vocabulary? Say --vocab (it is ",
        ),
        (SOUND_TEXT, ("--skip", "x"), "candidate:build: no check 'x'; they are runs, "),
    ],
)
def test_the_shell_says_why_there_is_nothing_to_examine(examined, text, options, error):
    status, said = examined(text, *options)
    assert status == 2 and said.startswith(error)


def test_the_shell_wants_a_function():
    with pytest.raises(ValueError, match=r"write package\.module:function"):
        shell.imported("helpers.transformer")
