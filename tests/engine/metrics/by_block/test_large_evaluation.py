"""Large images, block by block: the figures of the whole image, in little memory."""

import json
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

from qmcif_engine.errors import InvalidImageError
from qmcif_engine.metrics import evaluate, evaluation
from qmcif_engine.metrics.by_block import block_run, local_scores, phase_score
from qmcif_engine.metrics.by_block.block_run import STEPS_A_PASS

LOCAL_TOLERANCE = 1e-9
CONTRAST_TOLERANCE = 1e-5
PHASE_TOLERANCE = 0.002
FOURIER_TOLERANCES = {"Q_CB": CONTRAST_TOLERANCE, "Q_P": PHASE_TOLERANCE}
PEAK_BYTES = 1.2e9


@pytest.fixture
def in_blocks(monkeypatch):
    """Makes every image a large one, of blocks of 150 px."""
    monkeypatch.setattr(evaluation, "LARGEST_WHOLE_PX", 0)
    monkeypatch.setattr(block_run, "BLOCK_PX", 150)
    monkeypatch.setattr(local_scores, "GRADIENT_CHUNK_PX", 150)
    monkeypatch.setattr(phase_score, "TRANSFORMED_PX", 150 + 2 * phase_score.MARGIN_PX)


def compare(whole, by_block):
    for symbol, figure in whole.list_by_symbol().items():
        if figure is None:
            assert by_block.list_by_symbol()[symbol] is None
        else:
            assert by_block.list_by_symbol()[symbol] == pytest.approx(figure, abs=FOURIER_TOLERANCES.get(symbol, LOCAL_TOLERANCE)), symbol


def evaluate_both(request, *arguments, **options):
    whole = evaluate(*arguments, **options)
    request.getfixturevalue("in_blocks")
    return whole, evaluate(*arguments, **options)


@pytest.mark.parametrize(("shape", "n_sources"), [((201, 301, 3), 3), ((64, 320), 2)])
def test_blocks_give_the_figures_of_the_whole_image(request, paint_scene, shape, n_sources):
    scene = paint_scene(shape, n_sources=n_sources)

    compare(*evaluate_both(request, scene.sources, scene.fused, truth=scene.sources[0], border_px=9))


def test_borders_of_blocks_that_end_a_few_pixels_before_the_image_count_once(request, paint_scene):
    """155 px are one block of 150 px and a rest that holds no complete window."""
    scene = paint_scene((155, 303))

    compare(*evaluate_both(request, scene.sources, scene.fused, truth=scene.sources[1]))


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_other_sample_types_and_dask_arrays_are_brought_to_eight_bits_as_whole_images_are(request, paint_scene, dtype):
    scene = paint_scene((200, 210))
    sources, fused = [source.astype(dtype) * 13 for source in scene.sources], scene.fused.astype(dtype) * 13
    whole = evaluate(sources, fused, sample_range=(0, 4095))
    request.getfixturevalue("in_blocks")

    *lazy, lazy_fused = (da.from_array(image, chunks=(70, 210)) for image in (*sources, fused))
    compare(whole, evaluate(lazy, lazy_fused, sample_range=(0, 4095)))


def test_small_dask_arrays_have_exactly_the_figures_of_arrays_in_memory(paint_scene):
    scene = paint_scene((90, 80))
    *lazy, lazy_fused = (da.from_array(image, chunks=40) for image in (*scene.sources, scene.fused))

    assert evaluate(lazy, lazy_fused) == evaluate(scene.sources, scene.fused)


@pytest.mark.parametrize("levels", [(7, 7, 7), (9, 200, 50)])
def test_constant_images_are_judged_as_whole_ones_are(request, levels):
    *sources, fused = (np.full((170, 160), level, np.uint8) for level in levels)

    compare(*evaluate_both(request, sources, fused))


def test_a_constant_fused_image_of_textured_sources_is_judged_as_a_whole_one_is(request, paint_scene):
    scene = paint_scene((170, 160))

    compare(*evaluate_both(request, scene.sources, np.full_like(scene.fused, 80)))


@pytest.mark.usefixtures("in_blocks")
def test_nan_is_refused_by_name(paint_scene):
    scene = paint_scene((170, 160))
    *sources, fused = (image.astype(np.float32) for image in (*scene.sources, scene.fused))
    sources[1][160, 20:22] = np.nan

    with pytest.raises(InvalidImageError, match=r"Got 2 NaN or infinite sample\(s\) in source 2"):
        evaluate(sources, fused, sample_range=(0, 255))


@pytest.mark.usefixtures("in_blocks")
@pytest.mark.parametrize("with_truth", [False, True])
def test_progress_counts_every_step_once_and_ends_at_the_total(paint_scene, with_truth):
    scene = paint_scene((170, 160))
    steps = []

    evaluate(scene.sources, scene.fused, truth=scene.sources[0] if with_truth else None, progress=steps.append)

    assert [step.done for step in steps] == list(range(1, steps[0].total + 1))
    assert {step.total for step in steps} == {len(steps)}
    assert {"levels", "gradient", "contrast", "phase_congruency"} <= {step.metric for step in steps}


@pytest.mark.usefixtures("in_blocks")
def test_what_a_listener_raises_ends_the_evaluation_within_a_pass(paint_scene):
    scene = paint_scene((310, 300))
    steps = []

    def stop(step):
        steps.append(step)
        if step.metric == "phase_congruency":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(scene.sources, scene.fused, progress=stop)
    assert steps[-1].done % STEPS_A_PASS == 1


@pytest.mark.usefixtures("in_blocks")
def test_neither_a_scheduler_nor_a_progress_bar_of_the_user_is_used(paint_scene):
    scene, seen = paint_scene((170, 160)), []

    def refuse(*_, **__):
        pytest.fail("the user's scheduler was asked")

    with dask.config.set(scheduler=refuse), dask.callbacks.Callback(start=seen.append):
        evaluate(scene.sources, scene.fused)
    assert seen == []


def test_the_noise_of_the_whole_image_decides_in_every_block(request):
    """The left third is noise and the rest is smooth: the thresholds of single blocks would differ by far."""
    generator = np.random.default_rng(2)
    noise = generator.normal(0, 1, (160, 460)) * np.where(np.arange(460) < 150, 40, 1)
    sources = [np.clip(128 + 60 * np.sin(np.arange(460) / period) + noise, 0, 255).astype(np.uint8) for period in (7, 9)]

    compare(*evaluate_both(request, sources, sources[0]))


MEASUREMENT = """
import json, re, sys
from pathlib import Path
import dask.array as da
from qmcif_engine import evaluate, make_focus_stack
from qmcif_engine.metrics import evaluation
from qmcif_engine.metrics.by_block import block_run, local_scores, phase_score

side, block_px = int(sys.argv[1]), int(sys.argv[2])
evaluation.LARGEST_WHOLE_PX = 0
block_run.BLOCK_PX = local_scores.GRADIENT_CHUNK_PX = block_px
phase_score.TRANSFORMED_PX = block_px + 2 * phase_score.MARGIN_PX
small = make_focus_stack(n_images=2, shape=(260, 260), seed=0)
*sources, fused = (da.tile(da.from_array(image), (-(-side // 260),) * 2 + (1,))[:side, :side].rechunk((block_px, block_px, 3))
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
def test_memory_stays_small_and_does_not_grow_with_the_image():
    """Four blocks of the usual size are more than are in work at a time; growth is seen sooner, and faster, with small ones."""
    assert measure_peak(2 * block_run.BLOCK_PX, block_run.BLOCK_PX) < PEAK_BYTES
    assert measure_peak(1000, 250) < 1.2 * measure_peak(500, 250)
