"""What the benchmarks compute, and that they refuse to compare unlike work."""

import argparse
import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import torch

from benchmarks import (
    compare,
    course,
    gpu,
    growth,
    memory,
    rivals,
    speed,
    stepping,
    steps,
    workload,
)
from benchmarks.__main__ import parse
from benchmarks.compare import Rate, Row
from benchmarks.workload import LENGTHS, TINY, Data
from helpers import EOS, PAD, runtime
from helpers.batching import make_batch
from helpers.decoding import beam_search, greedy_decode
from helpers.transformer import Transformer, TransformerConfig
from samples import sentences, small_model
from tools.notebooks import NotebookError

pytestmark = pytest.mark.long  # benchmarks are no part of a lesson

# -- the clock -------------------------------------------------------------------------


def test_works_take_turns_and_medians_count():
    durations = {"a": iter([1.0, 9.0, 2.0]), "b": iter([5.0, 4.0, 30.0])}
    order = []

    def clock(work):
        order.append(work)
        return next(durations[work])

    assert compare.in_turns(["a", "b"], 3, clock=clock) == [2.0, 5.0]
    assert "".join(order) == "ababab"


def test_pieces_are_added_up_side_by_side():
    durations = {"a1": 1.0, "b1": 10.0, "a2": 2.0, "b2": 20.0}
    pieces = [("a1", "b1"), ("a2", "b2")]
    assert compare.in_pieces(pieces, 2, clock=durations.get) == [3.0, 30.0]


def test_a_call_is_timed_from_beginning_to_end():
    calls = []
    assert 0 < compare.timed(lambda: calls.append(1)) < 1
    assert calls == [1]


# -- the table -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "at_least", "bar", "ratio", "met"),
    [
        (10, 15, True, 1.3, 1.5, True),
        (10, 12, True, 1.3, 1.2, False),
        (15, 10, False, 1.5, 1.5, True),
        (16, 10, False, 1.5, 1.6, False),
    ],
)
def test_a_ratio_and_whether_its_bar_is_met(ours, theirs, at_least, bar, ratio, met):
    row = Row("a", "b", ours, theirs, "s", bar, "ids", at_least=at_least)
    assert row.ratio == ratio
    assert row.met == met
    assert ("yes" if met else "NO") in str(row)


def test_of_a_rate_more_is_better():
    row = Rate("a", "b", 60, 100, "GFLOP/s", 0.6, "shapes")
    assert row.ratio == 0.6
    assert row.met
    assert not Rate("a", "b", 59, 100, "GFLOP/s", 0.6, "shapes").met


@pytest.mark.parametrize(
    ("x", "text"),
    [(0.0312, "0.03"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123")],
)
def test_numbers_keep_three_digits(x, text):
    assert compare.number(x) == text
    assert compare.number(1000 * x + 1000).isdigit()


def test_the_columns_stand_below_their_heads():
    row = str(Row("work", "rival", 1.5, 3.0, "ms", 1.3, "SAME"))
    assert row.index("SAME") == compare.HEADER.index("what was found equal")
    assert row.index("rival") == compare.HEADER.index("against")


def test_short_times_are_in_milliseconds():
    row = compare.timing_row("a", "b", [0.05, 0.1], 1.3, "ids")
    assert (row.ours, row.theirs, row.unit) == (50, 100, "ms")
    row = compare.timing_row("a", "b", [0.5, 2.0], 1.3, "ids")
    assert (row.ours, row.theirs, row.unit) == (0.5, 2.0, "s")


def test_unequal_numbers_are_not_compared():
    compare.demand_equal(1.00001, 1.0, "loss", rtol=1e-4)
    for found in (1.001, float("nan")):
        with pytest.raises(AssertionError, match="loss: ours"):
            compare.demand_equal(found, 1.0, "loss", rtol=1e-4)


def test_the_machine_has_a_name_and_versions():
    first, second = compare.machine().splitlines()
    assert first.endswith("cores")
    assert "torch" in second


# -- the work --------------------------------------------------------------------------


def test_the_stored_lengths_have_multi30k_s_means():
    source, target = torch.tensor(LENGTHS).double().unbind(1)
    assert len(LENGTHS) == 64
    assert abs(source.mean() - 17.6) < 0.05
    assert abs(target.mean() - 16.6) < 0.05
    assert sorted(LENGTHS, key=lambda pair: pair[::-1]) == list(LENGTHS)


def test_made_pairs_have_these_lengths():
    pairs = workload.sentence_pairs(130, 50)
    lengths = [(len(source) + 1, len(target) + 1) for source, target in pairs]
    assert lengths == [*LENGTHS, *LENGTHS, *LENGTHS[:2]]
    ids = {token for pair in pairs for side in pair for token in side}
    assert ids <= set(range(4, 50))
    few = [len(target) + 1 for _, target in workload.sentence_pairs(4, 50)]
    assert few == [LENGTHS[i][1] for i in (0, 16, 32, 48)]


def test_shuffled_batches_hold_every_pair_once_within_the_budget():
    pairs = workload.sentence_pairs(200, 50)
    generator = torch.Generator().manual_seed(0)
    options = {"tokens_per_batch": 300, "generator": generator}
    batches = list(rivals.shuffled_batches(pairs, **options))
    assert all(batch.labels.numel() <= 300 for batch in batches)
    expected = [
        ((*source, EOS), tuple(target[1:]))
        for source, target in ((s, (0, *t)) for s, t in pairs)
    ]
    found = [
        (source, target[1:-1]) for source, target in speed.rows_of(batches).elements()
    ]
    assert sorted(found) == sorted(expected)


# -- rivals ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def batch():
    return make_batch(workload.sentence_pairs(TINY.sentences, TINY.vocabulary))


@pytest.mark.parametrize("rival", steps.RIVALS)
def test_rivals_lose_the_same_at_every_step(rival, batch):
    assert f"losses of {TINY.checked_steps} steps" in speed.equal_losses(
        batch, TINY, rival
    )


@pytest.mark.parametrize("rival", steps.RIVALS)
@pytest.mark.parametrize("fault", ["weights", "rate", "smoothing"])
def test_a_rival_that_does_something_else_is_refused(rival, fault, batch, monkeypatch):
    make, kind = steps.RIVALS[rival]

    def spoilt(model, *, dropout):
        theirs = make(model, dropout=dropout)
        if fault == "weights":
            with torch.no_grad():
                next(p for p in theirs.parameters() if p.dim() > 1).add_(0.1)
        return theirs

    class Spoilt(kind):
        def __init__(self, model, *, rate, **options):
            if fault == "smoothing":
                options["label_smoothing"] = 0.0
            super().__init__(model, rate=rate * (1 + (fault == "rate")), **options)

    monkeypatch.setitem(steps.RIVALS, rival, (spoilt, Spoilt))
    with pytest.raises(AssertionError, match=rf"loss of step \d, {rival}"):
        speed.equal_losses(batch, TINY, rival)


def test_d2l_s_blocks_are_norm_last():
    with pytest.raises(ValueError, match="norm_first must be False"):
        rivals.d2l_model(small_model(norm_first=True), dropout=0.0)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.usefixtures("seed")
def test_plain_decoding_gives_our_ids(norm_first):
    model, (source, _) = small_model(norm_first), sentences(rows=6)
    theirs = rivals.pytorch_model(model, dropout=0.0).train()
    options = {"max_length": 12}
    ours = [greedy_decode(model, source, **options)]
    plain = [rivals.plain_greedy(theirs, source, **options)]
    options |= {"beam_size": 3, "length_penalty": 1.5}
    ours.append(beam_search(model, source, **options))
    plain.append(rivals.plain_beam(theirs, source, **options))
    assert speed.agreement(ours, plain) == (12, 12)
    assert theirs.training


def test_agreement_counts_sentences_up_to_their_end():
    ours = [torch.tensor([[5, EOS, PAD], [5, 6, EOS]])]
    theirs = [torch.tensor([[5, EOS, PAD, PAD], [5, 7, EOS, PAD]])]
    assert speed.agreement(ours, theirs) == (2, 1)


def test_rivals_have_their_dropout_when_they_are_timed():
    model = workload.new_model(TINY, dropout=0.1)
    for make, kind in steps.RIVALS.values():
        theirs = make(model, dropout=0.1)
        kind(theirs, rate=1e-3)
        assert theirs.training
        rates = {m.p for m in theirs.modules() if isinstance(m, torch.nn.Dropout)}
        assert rates == {0.1}


# -- matrix products -------------------------------------------------------------------


def test_products_are_logged_forward_and_backward():
    layer = torch.nn.Linear(3, 5)
    x = torch.randn(7, 3, requires_grad=True)
    with speed.ProductLog() as log:
        layer(x).sum().backward()
    assert log.number == 3
    assert log.operations == 3 * 2 * 7 * 3 * 5
    log.again()  # on operands of the same forms
    forms = {(speed.form(a), speed.form(b)) for a, b in log.operands()}
    assert forms == set(log.shapes)


def test_batched_products_count_every_batch():
    with speed.ProductLog() as log:
        torch.bmm(torch.ones(4, 2, 3), torch.ones(4, 3, 5))
    assert log.operations == 4 * 2 * 2 * 3 * 5


# -- rows ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    config = TransformerConfig(
        50, 50, d_model=16, n_heads=2, d_ff=32, n_layers=1, norm_first=True
    )
    torch.manual_seed(0)
    translator = argparse.Namespace(model=Transformer(config))
    pairs = workload.sentence_pairs(TINY.pairs, 50)
    sources = [source for source, _ in pairs[: TINY.decoded]]
    return Data("made", translator, sources, "made", Transformer(config), pairs)


def test_rows_of_training():
    rows = speed.training_rows(TINY, steps.Steps())
    assert [row.bar for row in rows] == [1.3, 1.5, 1.0]
    assert [row.against for row in rows] == [*steps.RIVALS, steps.PLAIN]
    assert all(row.ours > 0 and row.theirs > 0 for row in rows)


def test_only_the_course_s_own_step_changes_how_memory_is_kept(monkeypatch):
    asked = []
    monkeypatch.setattr(runtime, "keep_freed_memory", lambda: asked.append(1))
    for side in (*steps.RIVALS, steps.PLAIN):
        steps.work_of(side, steps.Steps(), TINY)()
    assert not asked
    steps.work_of(steps.OURS, steps.Steps(), TINY)()
    assert len(asked) == 1


def test_rows_of_matrix_products():
    rows = speed.product_rows(TINY, steps.Steps())
    assert [row.bar for row in rows] == [0.6, 0.6]
    assert all(isinstance(row, Rate) and row.ours > 0 for row in rows)
    assert rows[0].ours == rows[1].ours
    # One layer each: 6 + 10 + 1 products, forward and two backward; 3 attentions with
    # two, whose gradients take two each.
    assert rows[0].same == f"{3 * 17 + 3 * 6} products"


def test_processes_take_steps_in_turns():
    seconds = stepping.in_own_processes([steps.OURS], steps.Steps(), TINY)
    assert 0 < seconds[steps.OURS] < 10


def test_row_of_an_epoch(data):
    row = speed.epoch_row(TINY, data, steps.Steps())
    assert row.name == "one epoch, made"
    assert f"{TINY.pairs} sentences" in row.same


def test_an_epoch_that_lacks_a_sentence_is_refused(data, monkeypatch):
    all_batches = speed.shuffled_batches
    monkeypatch.setattr(
        speed, "shuffled_batches", lambda *a, **k: list(all_batches(*a, **k))[:-1]
    )
    with pytest.raises(AssertionError, match="different sentences"):
        speed.epoch_row(TINY, data, steps.Steps())


def test_rows_of_decoding(data):
    rows = speed.decoding_rows(TINY, data)
    assert [row.name for row in rows] == [
        "greedy decoding, made",
        "beam of 5, made",
    ]
    assert all(f"ids of all {TINY.decoded}" in row.same for row in rows)


def test_decoding_that_differs_is_refused(data, monkeypatch):
    monkeypatch.setattr(
        speed, "plain_greedy", lambda model, source, **_: torch.full_like(source, 7)
    )
    with pytest.raises(AssertionError, match="greedy decoding: 20 of 20 differ"):
        speed.decoding_rows(TINY, data)


def test_row_of_dropout():
    row = speed.dropout_row(replace(TINY, d_model=256))
    assert row.against == "nn.Dropout"
    shares = row.same.removeprefix("shares kept: ").split(" and ")
    assert [float(x) for x in shares] == pytest.approx([0.9, 0.9], rel=0.02)


def test_dropout_that_drops_another_share_is_refused(monkeypatch):
    monkeypatch.setattr(speed, "QuickDropout", lambda p: torch.nn.Dropout(2 * p))
    with pytest.raises(AssertionError, match="share of numbers that dropout keeps"):
        speed.dropout_row(replace(TINY, d_model=256))


def test_row_of_recording():
    row = speed.recording_row(TINY)
    assert "3 maps recorded" in row.same
    assert not row.at_least


@pytest.mark.skipif(
    not workload.Path("/proc/self/clear_refs").exists(), reason="Linux alone tells"
)
@pytest.mark.parametrize("side", [steps.OURS, "nn.Transformer"])
def test_training_takes_memory(side):
    sizes = json.loads(json.dumps(asdict(TINY)))
    assert memory.main(side, workload.Sizes(**sizes)) >= 0


def test_a_fresh_python_prints():
    assert speed.fresh("-c", "print(6 * 7)") == "42"


def test_without_multi30k_the_toy_corpus_is_decoded(monkeypatch):
    monkeypatch.delenv("COURSE_DATA", raising=False)
    monkeypatch.setattr(workload, "toy_data", lambda: "toy")
    assert workload.load_data(None, None, 1.0) == "toy"


# -- growth ----------------------------------------------------------------------------


def test_fitted_powers_of_made_times():
    values = (1, 2, 4, 8)
    seconds = [3e-3 * value**1.5 for value in values]
    curve = growth.Curve("a", "length", values, seconds, [7 * v**2 for v in values], 2)
    assert curve.measured == pytest.approx(1.5, abs=1e-4)
    assert curve.counted == pytest.approx(2, abs=1e-4)
    assert curve.last == pytest.approx((1.5, 2), abs=1e-4)
    assert " 1.50  2.00" in str(curve)


def test_operations_of_attention_are_counted_too():
    def work():
        x = torch.ones(1, 2, 8, 4)  # batch, heads, length, features
        torch.nn.functional.scaled_dot_product_attention(x, x, x)

    assert growth.operations(work) == 2 * 2 * 2 * 8 * 8 * 4


@pytest.mark.parametrize("kind", growth.KINDS)
def test_operations_grow_as_theory_says(kind):
    small = {"d_model": 8, "n_heads": 2, "d_ff": 8, "vocabulary": 32, "layers": 2}
    point = growth.Point(**small, batch=2, length=16)

    def count(**change):
        return growth.operations(growth.WORKS[kind](replace(point, **change)))

    assert count(batch=4) == 2 * count()
    steps = [count(layers=layers) for layers in (1, 2, 3)]
    assert steps[2] - steps[1] == steps[1] - steps[0]
    steps = [count(vocabulary=v) for v in (32, 64, 96)]
    assert steps[2] - steps[1] == steps[1] - steps[0]
    steps = [count(length=n) for n in (16, 32, 48, 64)]
    second = [steps[i + 2] - 2 * steps[i + 1] + steps[i] for i in range(2)]
    assert second[0] == second[1] > 0  # a polynomial of second degree


def test_a_curve_is_measured_and_drawn(tmp_path):
    curve = growth.measure("decoding", "layers", (1, 2), runs=1)
    assert curve.operations[1] > curve.operations[0]
    growth.draw([curve], tmp_path / "growth.png")
    assert (tmp_path / "growth.png").stat().st_size > 1000


# -- the whole course ------------------------------------------------------------------


def test_each_lesson_has_its_share():
    lines = course.share_lines({"01_a": 30.0, "02_b": 90.0}, 70.0, 2)
    assert lines[0].endswith("30.0 s  25.0 %")
    assert lines[-1].startswith("all, 2 at a time")
    assert lines[-1].endswith("70.0 s, at most 480 s: met")
    assert course.share_lines({"01_a": 9.0}, 500.0, 1)[-1].endswith("NOT met")


def lesson(folder: Path, name: str, code: str) -> Path:
    path = folder / f"{name}.ipynb"
    cells = [nbformat.v4.new_code_cell(code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def test_lessons_run_side_by_side_and_keep_their_names(tmp_path):
    works = {
        name: partial(
            course.run_lesson, lesson(tmp_path, name, f"import time; time.sleep({s})")
        )
        for name, s in (("01_a", 0.5), ("02_b", 1), ("03_c", 1.5))
    }
    times, whole = course.measured(works, 3)
    assert [*times] == [*works]
    assert 1.5 < times["03_c"] < whole


def test_a_lesson_that_fails_is_no_quick_lesson(tmp_path):
    path = lesson(tmp_path, "01_a", "assert 1 == 2")
    with pytest.raises(NotebookError, match="assert 1 == 2"):
        course.measured({"01_a": partial(course.run_lesson, path)}, 1)


def test_the_toy_is_trained_anew_as_a_lesson_trains_it(tmp_path, monkeypatch):
    stale, other = tmp_path / "toy-0.safetensors", tmp_path / "bench-0.safetensors"
    for path in (stale, other):
        path.touch()
    calls = []
    monkeypatch.setattr(course, "CACHE", tmp_path)
    monkeypatch.setattr(course.subprocess, "run", lambda *a, **k: calls.append((a, k)))
    course.train_toy()
    assert not stale.exists() and other.exists()
    ((arguments,), options) = calls.pop()
    assert "trained_toy()" in arguments[-1] and options["check"]
    assert options["env"]["OMP_NUM_THREADS"] == "1"


def test_the_toy_is_the_first_work():
    assert next(iter(course.everything())) == course.TOY


def test_all_lessons_run_and_no_solution():
    names = [path.stem for path in course.lessons()]
    assert names[0] == "00_start_here"
    assert not any("solutions" in str(path) for path in course.lessons())


def test_the_command_line():
    assert parse([]).name == "all"
    chosen = parse(["speed", "--precision", "bf16", "--data", "folder"])
    assert (chosen.name, chosen.precision, chosen.data) == ("speed", "bf16", "folder")


# -- what is stored --------------------------------------------------------------------


def test_every_stored_bar_is_met():
    """README quotes this table; a row below its bar must not pass by unseen."""
    *_, table = speed.TABLE.read_text("utf-8").partition(compare.HEADER + "\n")
    rows = table.partition("\n\n")[0].splitlines()
    assert len(rows) >= 12
    for row in rows:
        if not row.startswith("the whole course"):
            assert " yes  " in row, row


def test_every_lesson_has_its_stored_time():
    *_, table = course.TABLE.read_text("utf-8").partition("\n\n")
    names = [line.split()[0] for line in table.splitlines()]
    assert names[1:-1] == [path.stem for path in course.lessons()]
    *lessons, whole = table.splitlines()
    assert abs(sum(float(line.split()[-2]) for line in lessons) - 100) < 1
    assert whole.endswith(": met")
    seconds = whole.split()[5]
    assert f" {seconds} s, at most " in speed.TABLE.read_text("utf-8")


def test_every_stored_curve_has_a_fitted_power_beside_theory_s():
    *_, table = growth.TABLE.read_text("utf-8").partition(growth.HEADER + "\n")
    found = [tuple(row.split()[:2]) for row in table.splitlines()]
    assert found == [(kind, size) for kind in growth.KINDS for size in growth.SWEEPS]
    assert growth.PICTURE.exists()


# -- a GPU -----------------------------------------------------------------------------


def test_every_way_of_attention_on_a_gpu_gives_the_same_context(tmp_path):
    path = tmp_path / "attention.csv"
    gpu.write_attention(path, (96, 640))
    found = pd.read_csv(path)
    assert [*found.columns] == [*gpu.COLUMNS]
    assert {"table", "tiles of 64", "blocks of 512 queries"} <= {*found.way}
    worst = found.groupby("precision").error.max()
    assert worst["fp32"] < 1e-5 and worst["bf16"] < 0.05


def test_the_ways_that_do_not_fit_on_a_gpu_are_left_out():
    assert "table" not in gpu.ways("fp32", 65_536)
    assert "tiles of 64" not in gpu.ways("fp32", 8_192)
    assert "tiles of 512" in gpu.ways("bf16", 16_384)


def test_a_step_has_a_line_for_each_precision_and_side():
    lines = [*gpu.training_table(TINY)]
    sides = [*gpu.PRECISIONS, "fp32, nn.Transformer", "bf16, nn.Transformer"]
    assert [line.split("  ")[0].strip() for line in lines] == sides


def test_without_a_gpu_nothing_is_measured(monkeypatch):
    monkeypatch.setattr(gpu, "best_device", lambda: torch.device("cpu"))
    with pytest.raises(SystemExit, match="no GPU"):
        gpu.main()
