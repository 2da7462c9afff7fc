"""Heights: physical units, steps kept, the same in any window."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest

from qmcif_engine import depth
from qmcif_engine.depth import (
    LARGEST_STEP,
    HeightImage,
    HeightRequest,
    HeightScale,
    assemble_heights,
    choose_height_scale,
    height_map,
)
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.output.windowed_image import ArrayImage
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.samples import FocusRange
from qmcif_engine.stack.window import Window

SHAPE = (40, 50)


@pytest.fixture
def noisy_step():
    """Two levels, five images apart, with noise of a quarter of an image."""
    generator = np.random.default_rng(2)
    truth = np.where(np.arange(SHAPE[1]) < 25, 2.0, 7.0) * np.ones(SHAPE)
    position = (truth + generator.normal(0, 0.25, SHAPE)).astype(np.float32)
    confidence = generator.uniform(0.2, 1, SHAPE).astype(np.float32)
    guide = generator.integers(100, 130, (*SHAPE, 3)).astype(np.uint8)
    return truth, position, confidence, guide


def test_heights_are_positions_times_the_z_step():
    position, confidence = np.array([[0, 1.5], [2, 3]], np.float32), np.ones((2, 2), np.float32)

    result = height_map(position, z_step=-2.5, confidence=confidence)

    np.testing.assert_array_equal(result.height, [[0, -3.75], [-5, -7.5]])
    np.testing.assert_array_equal(result.confidence, confidence)
    assert result.height.dtype == result.confidence.dtype == np.float32


def test_a_source_index_gives_heights_in_whole_steps():
    result = height_map(np.array([[0, 3]], np.uint16), z_step=0.5, confidence=np.ones((1, 2)))

    np.testing.assert_array_equal(result.height, [[0, 1.5]])


def test_smoothing_takes_noise_away_and_keeps_the_step(noisy_step):
    truth, position, confidence, guide = noisy_step

    smoothed = height_map(position, z_step=1, confidence=confidence, guide=guide, smoothing_px=3).height

    assert np.std(smoothed - truth) < np.std(position - truth) / 2
    assert np.abs(smoothed - truth).max() < LARGEST_STEP / 2


def test_smoothing_follows_the_confident_neighbors():
    position = np.where(np.arange(9) == 4, 1.0, 0.0)[None] * np.ones((9, 1), np.float32)
    confidence = np.ones((9, 9), np.float32)
    doubtful = np.where(position > 0, np.float32(0), confidence)

    alike, followed = (height_map(position, z_step=1, confidence=c, smoothing_px=2).height[4, 4] for c in (confidence, doubtful))

    assert followed < alike / 4


def test_smoothing_does_not_cross_edges_of_the_picture():
    position = np.where(np.arange(20) < 10, 0.0, 1.0)[None] * np.ones((20, 1), np.float32)
    guide = np.where(np.arange(20) < 10, 0, 255)[None] * np.ones((20, 1), np.uint8)
    confidence = np.ones((20, 20), np.float32)

    kept, crossed = (
        height_map(position, z_step=1, confidence=confidence, guide=picture, smoothing_px=4).height
        for picture in (guide, np.full_like(guide, 9))
    )

    assert kept[10, 9] < 0.02
    assert crossed[10, 9] > 0.15


def test_any_window_has_the_heights_of_the_whole(noisy_step):
    _, position, confidence, guide = noisy_step
    planes = [ArrayImage(plane) for plane in (position, confidence, guide)]
    picture = HeightImage(
        position=planes[0], confidence=planes[1], guide=planes[2], guide_range=FocusRange(0, 255), z_step=1.0, smoothing_px=5
    )
    whole = picture.read(Window.whole(SHAPE))

    for window in (Window(0, 0, 7, 3), Window(10, 20, 31, 29), Window(37, 49, 40, 50)):
        np.testing.assert_array_equal(picture.read(window), whole[window.slices])


@pytest.mark.parametrize(
    ("known", "given", "expected"),
    [
        (ImageMetadata(z_step=0.5, unit="micrometer"), {}, HeightScale(0.5, "micrometer")),
        (ImageMetadata(z_step=0.5, unit="micrometer"), {"unit": "nm"}, HeightScale(500.0, "nanometer")),
        (ImageMetadata(z_step=0.5), {"unit": "mm"}, HeightScale(0.5, "millimeter")),
        (ImageMetadata(z_step=0.5, unit="micrometer"), {"z_step": -3.0}, HeightScale(-3.0, "micrometer")),
        (ImageMetadata(), {"z_step": 3.0, "unit": "µm"}, HeightScale(3.0, "micrometer")),
        (ImageMetadata(), {"z_step": 1.0}, HeightScale(1.0, None)),
    ],
)
def test_what_is_given_goes_before_what_the_input_says(known, given, expected):
    scale = choose_height_scale(known, **given)

    assert scale.z_step == pytest.approx(expected.z_step)
    assert scale.unit == expected.unit


@pytest.mark.parametrize("smoothing_px", [0, 5])
@pytest.mark.parametrize("n_colors", [None, 1, 3])
def test_lazy_heights_have_the_bytes_of_heights_in_memory(monkeypatch, smoothing_px, n_colors):
    monkeypatch.setattr(depth, "CHUNK_PX", 32)
    generator = np.random.default_rng(5)
    position = (np.arange(103) // 40 + generator.normal(0, 0.3, (90, 103))).astype(np.float32)
    confidence = generator.uniform(0.5, 1, (90, 103)).astype(np.float32)
    guide = None if n_colors is None else generator.integers(0, 4000, (90, 103, n_colors)).astype(np.uint16)
    guide = guide[..., 0] if n_colors == 1 else guide
    form = {"z_step": -2.5, "smoothing_px": smoothing_px}
    lazy_guide = None if guide is None else da.from_array(guide, chunks=50)

    expected = height_map(position, confidence=confidence, guide=guide, **form)
    lazy = height_map(da.from_array(position, chunks=17), confidence=da.from_array(confidence, chunks=90), guide=lazy_guide, **form)

    assert lazy.height.numblocks == (2, 3)
    assert lazy.height.dtype == lazy.confidence.dtype == np.float32
    np.testing.assert_array_equal(lazy.height.compute(scheduler="threads"), expected.height)
    np.testing.assert_array_equal(lazy.height[40:60, 50:60].compute(scheduler="synchronous"), expected.height[40:60, 50:60])
    np.testing.assert_array_equal(lazy.confidence.compute(scheduler="synchronous"), expected.confidence)


def test_heights_without_any_z_step_are_refused():
    with pytest.raises(InvalidConfigError, match=r"do not say their z step; it is needed for heights: give it with --z-step"):
        choose_height_scale(ImageMetadata())


@pytest.mark.parametrize("z_step", [1e308, -1e31, 1e-320])
def test_a_z_step_that_leaves_the_range_of_heights_is_refused(z_step):
    with pytest.raises(InvalidConfigError, match=r"one from 1e-30 to 1e\+30, or minus that, is needed"):
        choose_height_scale(ImageMetadata(), z_step=z_step)
    with pytest.raises(InvalidConfigError, match="one from 1e-30"):
        choose_height_scale(ImageMetadata(z_step=abs(z_step), unit="meter"))


@pytest.mark.parametrize("z_step", [0.0, float("nan"), float("inf")])
def test_a_z_step_that_is_none_is_refused(z_step):
    with pytest.raises(InvalidConfigError, match=rf"the z step is {z_step}; one from 1e-30"):
        choose_height_scale(ImageMetadata(), z_step=z_step)


def test_a_unit_that_is_none_is_refused():
    with pytest.raises(InvalidConfigError, match=r"the unit of heights is 'parsec'; a unit of length is needed: give for example micro"):
        choose_height_scale(ImageMetadata(), z_step=1.0, unit="parsec")


@pytest.mark.parametrize("smoothing_px", [-1, 33])
def test_a_smoothing_out_of_bounds_is_refused(smoothing_px):
    with pytest.raises(InvalidConfigError, match=rf"the smoothing of heights is {smoothing_px} px; 0 to 32 is needed"):
        HeightRequest(target=Path("h.tif"), smoothing_px=smoothing_px)


def test_the_files_say_unit_z_step_and_size_of_a_pixel():
    plane = ArrayImage(np.ones(SHAPE, np.float32))
    request = HeightRequest(target=Path("h.v2.ome.tif"), smoothing_px=2)

    contents = assemble_heights(
        request,
        position=plane,
        confidence=plane,
        guide=plane,
        guide_range=FocusRange(0, 1),
        metadata=ImageMetadata(z_step=0.4, unit="micrometer", pixel_size=(0.1, 0.2), channel_names=("DAPI",)),
        provenance={"identity": "x"},
    )

    assert list(contents) == [Path("h.v2.ome.tif"), Path("h.v2_confidence.ome.tif")]
    heights = contents[request.target]
    assert heights.metadata == ImageMetadata(pixel_size=(0.1, 0.2), unit="micrometer", channel_names=("height in micrometer",))
    assert heights.provenance == {"identity": "x", "height": {"z_step": 0.4, "unit": "micrometer", "smoothing_px": 2}}
