"""Large images, block by block: the figures of the whole image, in little memory, with progress and cancellation."""

import json
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.metrics import EvaluationProgress, evaluate
from qmcif_engine.metrics.blocks import STEPS_A_PASS, cut_blocks

TOLERANCES = {"Q_CB": 1e-5, "Q_P": 0.002}
LOCAL_TOLERANCE = 1e-9
PEAK_BYTES = 1.2e9
GROWTH_BYTES = 1e8
"""Half of what three quarters of a megapixel more take where they are held at once."""


@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.tuples(st.integers(1, 15), st.integers(1, 15)), st.integers(1, 12))
def test_every_complete_window_lies_in_one_block(shape, sides, window_px):
    counts = np.zeros(shape, int)
    high, wide = (min(window_px, side) for side in shape)
    for block in cut_blocks(shape, sides, window_px=window_px):
        assert min(block.shape[0] - high, block.shape[1] - wide) >= 0
        counts[block.top : block.bottom - high + 1, block.left : block.right - wide + 1] += 1
    assert np.all(counts[: shape[0] - high + 1, : shape[1] - wide + 1] == 1)
    assert counts.sum() == (shape[0] - high + 1) * (shape[1] - wide + 1)


MEASUREMENT = """
import json, re, sys
from pathlib import Path
import dask.array as da
from qmcif_engine import evaluate, make_focus_stack
from qmcif_engine.metrics import blocks

side, blocks.BLOCK_PX = int(sys.argv[1]), int(sys.argv[2])
blocks.LARGEST_WHOLE_PX = blocks.LARGEST_WHOLE_SIDE_PX = 0
small = make_focus_stack(n_images=2, shape=(260, 260), seed=0)
*sources, fused = (da.tile(da.from_array(image), (-(-side // 260),) * 2 + (1,))[:side, :side].rechunk((blocks.BLOCK_PX, blocks.BLOCK_PX, 3))
                   for image in (*small.images, small.truth))
evaluate(sources, fused)
# not ru_maxrss: that one begins with what the process had that started this one
print(json.dumps(int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024))
"""


def measure_peak(side, block_px):
    request = [sys.executable, "-c", MEASUREMENT, str(side), str(block_px)]
    return json.loads(subprocess.run(request, capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of a process where Linux tells it")
def test_memory_does_not_grow_with_the_image():
    """Four blocks are more than are in work at a time; growth is seen with small ones, too."""
    small, large = measure_peak(400, 200), measure_peak(800, 200)

    assert large - small < GROWTH_BYTES
    assert large < PEAK_BYTES


def noisy_on_the_left():
    """The left third is noise and the rest is smooth: the thresholds of single blocks would differ by far."""
    noise = np.random.default_rng(2).normal(0, 1, (100, 460)) * np.where(np.arange(460) < 160, 40, 1)
    return [np.clip(128 + 60 * np.sin(np.arange(460) / period) + noise, 0, 255).astype(np.uint8) for period in (7, 9, 7)]


@pytest.mark.parametrize(
    ("shape", "n_sources", "levels"),
    # color and three sources; a narrow image, which is cut along its length only; a rest that holds no complete window; constant images
    [((170, 301, 3), 3, ()), ((64, 320), 2, ()), ((162, 170), 2, ()), ((170, 165), 2, (9, 200, 50)), ((170, 165), 2, (50,)), (None, 2, ())],
)
def test_blocks_give_the_figures_of_the_whole_image(in_blocks, paint_scene, shape, n_sources, levels):
    images = paint_scene(shape, n_sources=n_sources).images if shape else noisy_on_the_left()
    for image, level in zip(images[::-1], levels[::-1], strict=False):
        image[:] = level
    *sources, fused = images
    whole = evaluate(sources, fused, truth=sources[0], border_px=9).list_by_symbol()
    in_blocks()

    by_block = evaluate(sources, fused, truth=sources[0], border_px=9).list_by_symbol()

    for symbol, figure in whole.items():
        assert by_block[symbol] == pytest.approx(figure, abs=TOLERANCES.get(symbol, LOCAL_TOLERANCE)), symbol


def test_other_sample_types_and_dask_arrays_are_brought_to_eight_bits_as_whole_images_are(in_blocks, paint_scene):
    images = [image.astype(np.float32) * 13 for image in paint_scene((170, 165)).images]
    *lazy, lazy_fused = (da.from_array(image, chunks=(70, 165)) for image in images)
    whole = evaluate(images[:2], images[2], sample_range=(0, 4095))
    assert evaluate(lazy, lazy_fused, sample_range=(0, 4095)) == whole
    in_blocks()

    assert evaluate(lazy, lazy_fused, sample_range=(0, 4095)).gradient == pytest.approx(whole.gradient, abs=LOCAL_TOLERANCE)
    images[1][160, 20:22] = np.nan
    with pytest.raises(InvalidImageError, match=r"Got 2 NaN or infinite sample\(s\) in source 2; .*Replace them"):
        evaluate(images[:2], images[2], sample_range=(0, 255))


@pytest.mark.parametrize("is_cut", [False, True])
def test_progress_counts_every_step_once_and_no_scheduler_or_progress_bar_of_the_user_is_used(in_blocks, paint_scene, is_cut):
    sources, fused = paint_scene((170, 165), n_sources=3)
    if is_cut:
        in_blocks()
    steps, seen = [], []

    with (
        dask.config.set(scheduler=lambda *_, **__: pytest.fail("the user's scheduler was asked")),
        dask.callbacks.Callback(start=seen.append),
    ):
        evaluate(sources, fused, truth=fused if is_cut else None, progress=steps.append)

    assert seen == []
    assert [step.done for step in steps] == list(range(1, len(steps) + 1))
    assert steps[-1] == EvaluationProgress(len(steps), len(steps), "truth" if is_cut else "phase_congruency")
    assert {step.total for step in steps} == {len(steps)}
    assert {"levels", "gradient", "contrast", "phase_congruency"} <= {step.metric for step in steps}


@pytest.mark.parametrize("is_cut", [False, True])
def test_what_a_listener_raises_ends_the_evaluation_within_a_pass(in_blocks, paint_scene, is_cut):
    sources, fused = paint_scene((170, 165))
    if is_cut:
        in_blocks()
    steps = []

    def stop(step):
        steps.append(step)
        if step.metric == "phase_congruency":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(sources, fused, progress=stop)
    assert steps[-1].done % STEPS_A_PASS == 1
