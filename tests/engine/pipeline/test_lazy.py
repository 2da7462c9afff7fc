import dask
import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.lazy import fuse_lazily
from qmcif_engine.stack.preparation import prepare_stack
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.plan import plan_tiles
from tests.scenes import logged_stack

# a focus measure that is quick, since this is about what happens to tiles and not about what is in them
CONFIG = FusionConfig().replaced({"tile_px": 64, "smoothness": 0.0, "measure": "laplacian"})
PLANES = ("fused", "source_index", "base_map", "detail_map", "confidence")


@pytest.fixture(scope="module")
def images():
    return make_focus_stack(shape=(130, 150), n_images=3, seed=4).images


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_every_scheduler_gives_the_bytes_of_fuse(images, scheduler):
    expected = fuse(images, CONFIG, with_maps=True)
    lazy = fuse_lazily(stack_arrays(images), CONFIG)

    planes = dask.compute(*(getattr(lazy, name) for name in PLANES), scheduler=scheduler)

    for plane, name in zip(planes, PLANES, strict=True):
        assert plane.dtype == getattr(expected, name).dtype == getattr(lazy, name).dtype
        np.testing.assert_array_equal(plane, getattr(expected, name))


def test_gray_stacks_work_too(images):
    gray = [image[..., 0] for image in images]

    np.testing.assert_array_equal(fuse_lazily(stack_arrays(gray), CONFIG).fused.compute(scheduler="synchronous"), fuse(gray, CONFIG).fused)


def test_a_part_computes_only_its_tiles():
    stack = logged_stack(make_focus_stack(n_images=2, shape=(130, 600), seed=1).images)
    lazy = fuse_lazily(stack, CONFIG, focus_range=(0, 255))
    assert {window.shape for _, window in stack.read.places} == {(130, 600)}  # a subsample and the coarse copy
    stack.read.places.clear()

    lazy.fused[:10, :10].compute(scheduler="synchronous")

    first, windows = plan_tiles((130, 600), CONFIG)[0], [window for _, window in stack.read.places]
    assert first.padded in windows
    assert all(window.common(first.padded) == window for window in windows)
    assert first.padded != Window.whole((130, 600))


def test_an_unfit_focus_range_is_refused_at_once(images):
    with pytest.raises(InvalidConfigError, match="the focus range is"):
        fuse_lazily(stack_arrays(images), CONFIG, focus_range=(3, 3))


def open_alpha(images, folder):
    paths = [folder / f"{number}.png" for number in range(len(images))]
    for number, (image, path) in enumerate(zip(images, paths, strict=True)):
        alpha = np.full(image.shape[:2], 40 * number + 100, np.uint8)
        write_image(path, image, alpha=alpha)
    return open_stack(paths)


def open_many_channels(images, folder):
    del folder
    dyes = np.concatenate([images, 255 - images[..., :2]], axis=-1)  # five, of which the second, the fourth and the fifth decide
    return open_stack(dyes, axes="ZYXC", channels=[2, 4, 5])


def open_each(images, folder):
    del folder
    return open_stack(images, axes="ZYXC", channels="each")


def move(images, folder):
    return prepare_stack(open_many_channels(images, folder), align="translation", even_exposure=True)


KINDS = {"alpha": open_alpha, "many channels": open_many_channels, "each channel": open_each, "prepared": move}


@pytest.mark.parametrize("opened", KINDS.values(), ids=KINDS)
def test_all_that_fuse_returns_is_there_and_the_same(images, opened, tmp_path):
    stack = opened(images, tmp_path)
    expected = fuse(stack, CONFIG, with_position=True, with_maps=True)

    lazy = fuse_lazily(stack, CONFIG, with_position=True)

    names = [name for name in (*PLANES, "companions", "position") if getattr(expected, name) is not None]
    assert ("companions" in names) == (opened is not open_each)
    for plane, name in zip(dask.compute(*(getattr(lazy, name) for name in names)), names, strict=True):
        array, wanted = getattr(lazy, name), getattr(expected, name)
        assert (array.shape, array.dtype, plane.dtype) == (wanted.shape, wanted.dtype, wanted.dtype)
        np.testing.assert_array_equal(plane, wanted, err_msg=name)
    assert (lazy.config, lazy.focus_range) == (expected.config, expected.focus_range)


def test_each_channel_can_be_asked_of_a_stack_that_was_opened_otherwise(images):
    lazy, expected = (way(open_stack(images), CONFIG, channels="each") for way in (fuse_lazily, fuse))

    np.testing.assert_array_equal(lazy.source_index.compute(), expected.source_index)
    np.testing.assert_array_equal(lazy.fused.compute(), expected.fused)


def test_what_was_not_asked_for_is_not_there(images):
    lazy = fuse_lazily(stack_arrays(images), CONFIG)

    assert lazy.companions is None
    assert lazy.position is None
