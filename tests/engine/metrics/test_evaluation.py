"""All figures together: the published reference values, many sources, any sample type, and what is refused."""

import csv
import itertools
import math
import time
from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from PIL import Image

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.metrics import evaluate
from qmcif_engine.metrics.inputs import choose_limits
from qmcif_engine.metrics.levels import convert_to_eight_bits, convert_to_gray, tabulate_stretching

SHARED = Path(__file__).parents[4] / "shared"
GOLDEN = SHARED / "metrics" / "golden.csv"
TOLERANCES = {"Q_MI": 1e-6, "Q_G": 1e-6, "Q_P": 1e-6, "Q_E": 1e-5, "Q_Y": 1e-6, "Q_CB": 1e-6}
ROUNDING = 1e-9
SECONDS_FOR_A_PAIR = 1.5
GRAY, COLOR = np.zeros((5, 6), np.uint8), np.zeros((5, 6, 3), np.uint8)
FLOAT, WRONG = GRAY.astype(np.float32), GRAY.astype(np.int32)
LOST, UNIT = np.where(np.arange(30).reshape(5, 6) == 20, -np.inf, FLOAT), {"sample_range": (0, 1)}
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
    chosen = (fused[number % len(fused)] for number, fused in enumerate(pairs))
    return [pytest.param(row, id=Path(row["fused"]).stem, marks=needs_shared) for row in chosen]


@pytest.mark.parametrize("row", read_golden())
def test_six_metrics_equal_the_reference_toolbox(row):
    images = [np.asarray(Image.open(SHARED / row[name])) for name in ("source_a", "source_b", "fused")]
    figures = evaluate(images[:2], images[2]).list_by_symbol()

    for symbol, tolerance in TOLERANCES.items():
        assert figures[symbol] == pytest.approx(float(row[symbol.replace("_", "")]), abs=tolerance), symbol


@pytest.mark.slow
def test_pair_of_usual_size_is_evaluated_within_its_time(paint_scene):
    sources, fused = paint_scene((520, 520, 3))
    seconds = []
    for _ in range(2):  # the fastest counts: other programs only ever slow one down
        start = time.thread_time()
        evaluate(sources, fused)
        seconds.append(time.thread_time() - start)

    assert min(seconds) <= SECONDS_FOR_A_PAIR


@pytest.mark.parametrize(
    ("dtype", "factor", "sample_range"), [("uint16", 257, None), ("float32", 1 / 255, (0, 1)), ("float64", 2, (0, 510))]
)
def test_other_sample_types_score_what_their_eight_bit_copy_scores(paint_scene, dtype, factor, sample_range):
    sources, fused = paint_scene((20, 21, 3))
    converted = [(image * np.float64(factor)).astype(dtype) for image in (*sources, fused)]

    evaluation = evaluate(converted[:2], converted[2], truth=converted[0], sample_range=sample_range)

    assert evaluation == evaluate(sources, fused, truth=sources[0])


@pytest.mark.parametrize(
    ("sources", "fused", "options", "words"),
    [
        ([GRAY], GRAY, {}, r"Got 1 source image\(s\); .* at least 2\. Pass all"),
        ([GRAY, GRAY.tolist()], GRAY, {}, r"Got source 2 as list; a NumPy array or a dask array .*Convert it with numpy\.asarray"),
        ([GRAY[..., None]] * 2, GRAY, {}, r"Got source 1 with shape \(5, 6, 1\); \(H, W\) gray or \(H, W, 3\) RGB .*Drop an alpha channel"),
        ([GRAY[:0]] * 2, GRAY[:0], {}, r"Got source 1 with shape \(0, 6\); .*at least one pixel"),
        ([GRAY, GRAY.T], GRAY, {}, r"Got source 2 with shape \(6, 5\) but source 1 with \(5, 6\); all must agree\. Crop"),
        ([GRAY, GRAY], COLOR, {}, r"Got the fused image with shape .*; all must agree\. Crop or convert"),
        ([GRAY, GRAY], GRAY, {"truth": GRAY[:4]}, r"Got the truth with shape .*; all must agree"),
        ([GRAY, GRAY], FLOAT, {}, r"Got the fused image of float32 but source 1 of uint8; .* Convert them to one dtype"),
        ([WRONG, WRONG], WRONG, {"sample_range": (0, 1)}, r"Got images of int32; one of uint8, .*bool is needed\. Convert"),
        ([FLOAT, FLOAT], FLOAT, {}, r"Got images of float32 without a sample range; floats have .*Pass sample_range"),
        ([FLOAT, LOST], FLOAT, UNIT, r"Got 1 NaN or infinite sample\(s\) in source 2; .*Replace them"),
        ([FLOAT, FLOAT], da.from_array(LOST), UNIT, r"Got 1 NaN or infinite sample\(s\) in the fused image; .*Replace them"),
        ([FLOAT, FLOAT], FLOAT, {**UNIT, "truth": LOST}, r"Got 1 NaN or infinite sample\(s\) in the truth; .*Replace them"),
        ([GRAY.astype(np.uint32)] * 2, GRAY.astype(np.uint32), {}, r"Got images of uint32 without .*; it has .*Pass sample_range"),
        *(
            ([GRAY, GRAY], GRAY, {"sample_range": wrong}, r"Got sample range .*; two finite numbers, .* Pass for instance")
            for wrong in [(1, 0), (0, 0), (0, np.inf), (np.nan, 1), (-1e308, 1e308), (0, 1, 2), 255, ("0", "1")]
        ),
        *(
            ([GRAY, GRAY], GRAY, {"border_px": wrong}, r"Got a border of .* px; a whole number from 0 on is needed\. Pass 0")
            for wrong in [-1, 1.5, True, "8"]
        ),
        ([GRAY, GRAY], GRAY, {"source_index": GRAY}, "Got source_index without true_index; .* Pass both, or neither"),
        ([GRAY, GRAY], GRAY, {"true_index": GRAY}, "Got true_index without source_index; .* Pass both, or neither"),
        *(
            ([GRAY, GRAY], GRAY, {"source_index": GRAY, "true_index": wrong}, r"Got true_index as .*; an integer array .*Pass one")
            for wrong in [GRAY[1:], FLOAT, GRAY.tolist()]
        ),
        *(
            ([GRAY, GRAY], GRAY, {"source_index": wrong, "true_index": GRAY}, r"Got source_index from .*; there are 2 sources, .*Pass 0")
            for wrong in [WRONG - 1, WRONG + 2]
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused_in_words_that_help(sources, fused, options, words):
    with pytest.raises(InvalidImageError, match=words):
        evaluate(sources, fused, **options)


@settings(deadline=None, max_examples=15, derandomize=True)
@given(hnp.arrays(np.int64, 256, elements=st.integers(0, 1)).filter(np.any))
def test_stretched_levels_reach_both_ends_and_keep_their_order(counts):
    present = np.flatnonzero(counts)
    table = tabulate_stretching(counts)

    assert (table[present[0]], table[present[-1]]) == ((0, 255) if len(present) > 1 else (0, 0))
    assert np.all(np.diff(table.astype(int)) >= 0)
    # 3 of 34 parts of 255 are 22.5, rounded up
    assert tabulate_stretching(np.bincount([0, 3, 34], minlength=256))[3] == 23


def test_other_levels_are_mapped_rounded_up_at_halves_and_clipped_and_gray_is_the_rounded_weighted_sum():
    samples = np.array([[-1.0, -2.0, -1e308, 1e308, 3.0, 1.0, 0.99]])
    levels = np.arange(256, dtype=np.uint8).reshape(1, 256)
    # by hand: 76.23, 149.70, 29.08, and 2.99 + 117.41 + 3.42
    colors = np.array([[(255, 0, 0), (0, 255, 0), (0, 0, 255), (10, 200, 30)]], np.uint8)

    np.testing.assert_array_equal(convert_to_eight_bits(samples, limits=(-1.0, 3.0)), [[0, 0, 0, 255, 255, 128, 127]])
    np.testing.assert_array_equal(convert_to_eight_bits(levels.astype(np.uint16) * 257, limits=(0.0, 65535.0)), levels)
    np.testing.assert_array_equal(convert_to_gray(np.dstack([levels] * 3)), levels)
    np.testing.assert_array_equal(convert_to_gray(colors), [[76, 150, 29, 124]])
    expected = {"uint8": (0, 255), "uint16": (0, 65535), "int8": (-128, 127), "int16": (-32768, 32767), "bool": (0, 1)}
    assert {name: choose_limits(np.dtype(name), None) for name in expected} == expected
    assert choose_limits(np.dtype(np.uint32), (0, 70000)) == (0, 70000)


def test_figures_do_not_depend_on_repeated_sources_their_order_or_equal_channels(paint_scene):
    images = paint_scene((33, 31), n_sources=3).images
    for image in images:
        image.flags.writeable = False  # writing into it would raise
    color = [np.dstack([image] * 3) for image in images]
    figures = evaluate(images[:3], images[3], truth=images[0])

    assert evaluate(color[:3], color[3], truth=color[0]) == figures
    assert list(figures.list_by_symbol())[:6] == list(TOLERANCES)
    for sources in (images[:3] * 2, images[2::-1]):
        repeated = evaluate(sources, images[3]).list_by_symbol()
        assert list(repeated.values())[:6] == pytest.approx(list(figures.list_by_symbol().values())[:6], abs=ROUNDING)
    assert [symbol for symbol, value in repeated.items() if value is None] == ["PSNR", "PSNR_inner", "SSIM", "Q_SSIM", "right_source"]


def test_share_of_right_choices_needs_no_true_picture(paint_scene):
    source_index = np.zeros((8, 10), int)
    source_index[:, :2] = 1

    evaluation = evaluate(*paint_scene((8, 10)), source_index=source_index, true_index=np.zeros((8, 10), np.uint16))

    assert (evaluation.right_source_share, evaluation.signal_to_noise_db) == (pytest.approx(0.8), None)


HIGHEST = {"Q_MI": 2, "Q_G": 0.974794, "Q_E": 1, "Q_Y": 1, "Q_CB": 1, "SSIM": 1, "Q_SSIM": 1}
LOWEST = {"Q_MI": 0, "Q_G": 0, "Q_E": -1, "Q_Y": -1, "Q_CB": 0, "SSIM": -1, "Q_SSIM": 0}
shapes = st.tuples(st.integers(1, 13), st.integers(1, 13))


@settings(deadline=None, max_examples=8, derandomize=True)
@given(shapes.flatmap(lambda shape: hnp.arrays(np.uint8, (3, *shape), elements=st.sampled_from([0, 7, 255]))))
@example(np.full((3, 12, 17), 77, np.uint8))
@example(np.full((3, 1, 2), 128, np.uint8))
def test_figures_of_any_picture_are_finite_in_their_range_and_highest_for_identical_images(stack):
    figures = evaluate(list(stack[:2]), stack[2], truth=stack[0]).list_by_symbol()
    same = evaluate([stack[0]] * 3, stack[0], truth=stack[0]).list_by_symbol()

    assert all(math.isfinite(value) for value in figures.values() if value is not None)
    assert all(low <= figures[symbol] <= HIGHEST[symbol] + 1e-5 for symbol, low in LOWEST.items())
    assert {symbol: same[symbol] for symbol in HIGHEST} == pytest.approx(HIGHEST, abs=1e-5)
    assert np.ptp(stack) > 0 or same["Q_P"] == pytest.approx(1, abs=1e-3)
