"""All figures together: the published reference values, many sources, any sample type, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import itertools
import math
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image
from skimage.metrics import peak_signal_noise_ratio

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.metrics import Evaluation, EvaluationProgress, evaluate, levels, sliding_windows

SHARED = Path(__file__).parents[4] / "shared"
GOLDEN = SHARED / "metrics" / "golden.csv"
TOLERANCES = {"Q_MI": 1e-6, "Q_G": 1e-6, "Q_P": 1e-6, "Q_E": 1e-5, "Q_Y": 1e-6, "Q_CB": 1e-6}
SIX = tuple(TOLERANCES)
PROPERTY = settings(deadline=None, max_examples=40, derandomize=True)
ROUNDING = 1e-9
SINGLE_ROUNDING = 1e-3  # Q_P of a small picture, where a few pixels may cross a threshold
SECONDS_FOR_A_PAIR = 1.5
BYTES_PER_PIXEL = 90  # with the images themselves (9) and the interpreter, 24 megapixels stay below 2.5 GB

needs_shared = [
    pytest.mark.shared,
    pytest.mark.skipif(not GOLDEN.is_file(), reason=f"the development pictures are not at {SHARED}"),
]


def read_golden():
    """A row for each pair of sources, its methods taken in turn: the others differ from these in the fused image only."""
    if not GOLDEN.is_file():
        return [pytest.param({}, id="absent", marks=needs_shared)]
    with GOLDEN.open(newline="") as file:
        rows = list(csv.DictReader(file))
    pairs = [list(fused) for _, fused in itertools.groupby(rows, key=lambda row: row["source_a"])]
    return [
        pytest.param(row, id=Path(row["fused"]).stem, marks=needs_shared)
        for row in (fused[number % len(fused)] for number, fused in enumerate(pairs))
    ]


def read_picture(name):
    with Image.open(SHARED / name) as picture:
        return np.asarray(picture)


def list_six(evaluation):
    figures = evaluation.list_by_symbol()
    return [figures[symbol] for symbol in SIX]


@pytest.mark.parametrize("row", read_golden())
def test_six_metrics_equal_the_reference_toolbox(row):
    evaluation = evaluate([read_picture(row["source_a"]), read_picture(row["source_b"])], read_picture(row["fused"]))

    for symbol, tolerance in TOLERANCES.items():
        assert evaluation.list_by_symbol()[symbol] == pytest.approx(float(row[symbol.replace("_", "")]), abs=tolerance), symbol


@pytest.mark.slow
def test_pair_of_usual_size_is_evaluated_within_its_time(paint_scene):
    sources, fused = paint_scene((520, 520, 3))
    seconds = []
    for _ in range(3):  # the fastest counts: other programs only ever slow one down
        start = time.thread_time()
        evaluate(sources, fused)
        seconds.append(time.thread_time() - start)

    assert min(seconds) <= SECONDS_FOR_A_PAIR


def prepare_evaluation_in_single_precision(sources, fused):
    levels.PIXELS_IN_DOUBLE_PRECISION = 0
    return lambda: evaluate(sources, fused)


@pytest.mark.slow
def test_large_pair_stays_within_its_memory(paint_scene, peak_of):
    sources, fused = paint_scene((1000, 1500))

    assert peak_of(prepare_evaluation_in_single_precision, sources, fused) / fused.size <= BYTES_PER_PIXEL


@pytest.mark.parametrize("shape", [(40, 50), (41, 33, 3)])
def test_repeating_every_source_changes_no_figure(paint_scene, shape):
    sources, fused = paint_scene(shape)

    assert list_six(evaluate(sources * 3, fused)) == pytest.approx(list_six(evaluate(sources, fused)), abs=ROUNDING)


def test_order_of_many_sources_changes_no_figure(paint_scene):
    sources, fused = paint_scene((40, 50), n_sources=4)

    assert list_six(evaluate(sources[::-1], fused)) == pytest.approx(list_six(evaluate(sources, fused)), abs=ROUNDING)


def test_strips_and_precision_change_no_figure_beyond_rounding(paint_scene, monkeypatch):
    sources, fused = paint_scene((67, 50), n_sources=3)
    whole = list_six(evaluate(sources, fused))
    monkeypatch.setattr(sliding_windows, "PIXELS_PER_STRIP", 1)
    monkeypatch.setattr(sliding_windows, "FEWEST_ROWS_PER_STRIP", 5)
    assert list_six(evaluate(sources, fused)) == pytest.approx(whole, abs=ROUNDING)
    monkeypatch.setattr(levels, "PIXELS_IN_DOUBLE_PRECISION", 0)
    assert list_six(evaluate(sources, fused)) == pytest.approx(whole, abs=SINGLE_ROUNDING)


def test_gray_picture_scores_what_it_scores_as_color(paint_scene):
    sources, fused = paint_scene((30, 31))

    in_color = evaluate([np.dstack([source] * 3) for source in sources], np.dstack([fused] * 3), truth=np.dstack([sources[0]] * 3))

    assert in_color == evaluate(sources, fused, truth=sources[0])


@pytest.mark.parametrize(
    ("dtype", "factor", "sample_range"), [("uint16", 257, None), ("float32", 1 / 255, (0, 1)), ("float64", 2, (0, 510))]
)
def test_other_sample_types_score_what_their_eight_bit_copy_scores(paint_scene, dtype, factor, sample_range):
    sources, fused = paint_scene((20, 21, 3))
    converted = [(image * np.float64(factor)).astype(dtype) for image in (*sources, fused)]

    evaluation = evaluate(converted[:2], converted[2], truth=converted[0], sample_range=sample_range)

    assert evaluation == evaluate(sources, fused, truth=sources[0])


def test_figures_against_the_truth_are_of_the_colors_and_leave_out_the_border(paint_scene):
    sources, fused = paint_scene((40, 41, 3))
    truth = sources[0]

    evaluation = evaluate(sources, fused, truth=truth, border_px=3)

    assert evaluation.signal_to_noise_db == pytest.approx(peak_signal_noise_ratio(truth, fused))
    assert evaluation.inner_signal_to_noise_db == pytest.approx(peak_signal_noise_ratio(truth[3:-3, 3:-3], fused[3:-3, 3:-3]))
    assert 0 < evaluation.truth_similarity < 1
    assert 0 < evaluation.truth_quaternion_similarity < 1
    assert evaluate(sources, fused, truth=truth).inner_signal_to_noise_db == pytest.approx(
        peak_signal_noise_ratio(truth[8:-8, 8:-8], fused[8:-8, 8:-8])
    )


def test_figures_without_a_truth_are_none(paint_scene):
    evaluation = evaluate(*paint_scene((9, 9)))

    symbols = [symbol for symbol, value in evaluation.list_by_symbol().items() if value is None]
    assert symbols == ["PSNR", "PSNR_inner", "SSIM", "Q_SSIM", "right_source"]


def test_share_of_right_choices_needs_no_true_picture(paint_scene):
    true_index = np.zeros((8, 10), np.uint16)
    source_index = true_index.copy()
    source_index[:, :2] = 1

    evaluation = evaluate(*paint_scene((8, 10)), source_index=source_index, true_index=true_index)

    assert evaluation.right_source_share == pytest.approx(0.8)
    assert evaluation.signal_to_noise_db is None


def test_symbols_name_every_figure_and_each_its_own():
    names = [field.name for field in dataclasses.fields(Evaluation)]
    evaluation = Evaluation(**{name: float(number) for number, name in enumerate(names)})

    assert list(evaluation.list_by_symbol().values()) == list(range(len(names)))
    assert tuple(evaluation.list_by_symbol())[:6] == ("Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB")
    with pytest.raises(dataclasses.FrozenInstanceError):
        evaluation.gradient = 1.0


@PROPERTY
@given(
    st.tuples(st.integers(1, 13), st.integers(1, 13)).flatmap(
        lambda shape: hnp.arrays(np.uint8, (3, *shape), elements=st.sampled_from([0, 7, 255]))
    )
)
def test_figures_of_any_picture_are_finite(stack):
    figures = evaluate(list(stack[:2]), stack[2], truth=stack[0], source_index=stack[0] // 255, true_index=stack[1] // 255)

    assert all(math.isfinite(value) for value in figures.list_by_symbol().values())


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (3, 3), (12, 17), (5, 4, 3)])
@pytest.mark.parametrize("level", [0, 128, 255])
def test_identical_constant_pictures_score_highest(shape, level):
    constant = np.full(shape, level, np.uint8)

    scores = evaluate([constant, constant], constant, truth=constant).list_by_symbol()

    highest = {"Q_MI": 2, "Q_G": 0.9749, "Q_P": 1, "Q_E": 1, "Q_Y": 1, "Q_CB": 1, "SSIM": 1, "Q_SSIM": 1}
    assert {symbol: scores[symbol] for symbol in highest} == pytest.approx(highest, abs=1e-3)


def test_pictures_are_left_as_they_were(paint_scene):
    sources, fused = paint_scene((12, 13, 3))
    before = [image.copy() for image in (*sources, fused)]

    evaluate(sources, fused, truth=sources[0])

    for image, copy in zip((*sources, fused), before, strict=True):
        np.testing.assert_array_equal(image, copy)


@pytest.mark.parametrize("n_sources", [2, 3])
def test_progress_counts_up_to_the_announced_total(paint_scene, n_sources):
    sources, fused = paint_scene((9, 10), n_sources=n_sources)
    heard = []

    evaluate(sources, fused, truth=fused, progress=heard.append)

    assert [step.done for step in heard] == list(range(1, heard[-1].total + 1))
    assert heard[-1] == EvaluationProgress(len(heard), len(heard), "truth")
    assert {step.metric for step in heard} >= {"gradient", "contrast", "phase_congruency"}


def test_error_of_the_listener_ends_the_evaluation(paint_scene):
    heard = []

    def stop(step):
        heard.append(step)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        evaluate(*paint_scene((9, 10)), progress=stop)
    assert len(heard) == 1


@pytest.mark.parametrize("border_px", [-1, 1.5, True, "8"])
def test_border_that_is_no_width_is_refused(paint_scene, border_px):
    with pytest.raises(InvalidImageError, match=r"Got a border of .* px; a whole number from 0 on is needed\. Pass 0"):
        evaluate(*paint_scene((9, 10)), border_px=border_px)


@pytest.mark.parametrize(("given_name", "missing"), [("source_index", "true_index"), ("true_index", "source_index")])
def test_one_index_without_the_other_is_refused(paint_scene, given_name, missing):
    with pytest.raises(InvalidImageError, match=rf"Got {given_name} without {missing}; .* Pass both, or neither"):
        evaluate(*paint_scene((9, 10)), **{given_name: np.zeros((9, 10), np.uint16)})


@pytest.mark.parametrize("index", [np.zeros((9, 9), int), np.zeros((9, 10)), [[0] * 10] * 9])
def test_index_that_names_no_source_for_each_pixel_is_refused(paint_scene, index):
    with pytest.raises(InvalidImageError, match=r"Got true_index as .*; an integer array of shape \(9, 10\) is needed\. Pass one"):
        evaluate(*paint_scene((9, 10)), source_index=np.zeros((9, 10), int), true_index=index)


@pytest.mark.parametrize("number", [-1, 2])
def test_index_of_a_source_there_is_not_is_refused(paint_scene, number):
    index = np.zeros((9, 10), int)
    index[3, 3] = number
    with pytest.raises(InvalidImageError, match=r"Got source_index from -?\d to \d; there are 2 sources, .* Pass 0 to 1"):
        evaluate(*paint_scene((9, 10)), source_index=index, true_index=np.zeros((9, 10), int))


def test_pictures_that_do_not_fit_are_refused(paint_scene):
    sources, fused = paint_scene((9, 10))
    with pytest.raises(InvalidImageError, match="Got the fused image with shape"):
        evaluate(sources, fused[:-1])
