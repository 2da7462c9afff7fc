import dask
import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.fusing.in_memory import fuse
from qmcif_engine.fusing.lazy import fuse_lazily
from qmcif_engine.stack.stack import ArrayStack
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window

CONFIG = FusionConfig().replaced({"tile_px": 64, "evidence_scales": 1, "follow_reach_px": 0, "consistency": 0.0, "iterations": 2})
PLANES = ("fused", "source_index", "base_map", "detail_map", "confidence")


@pytest.fixture(scope="module")
def images():
    return make_focus_stack(shape=(130, 150), n_images=3, seed=4).images


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_every_scheduler_gives_the_bytes_of_fuse(images, scheduler):
    expected = fuse(images, CONFIG)
    lazy = fuse_lazily(ArrayStack(images), CONFIG)

    planes = dask.compute(*(getattr(lazy, name) for name in PLANES), scheduler=scheduler)

    for plane, name in zip(planes, PLANES, strict=True):
        assert plane.dtype == getattr(expected, name).dtype == getattr(lazy, name).dtype
        np.testing.assert_array_equal(plane, getattr(expected, name))


def test_gray_stacks_work_too(images):
    gray = [image[..., 0] for image in images]

    np.testing.assert_array_equal(fuse_lazily(ArrayStack(gray), CONFIG).fused.compute(scheduler="synchronous"), fuse(gray, CONFIG).fused)


def test_a_part_computes_only_its_tiles(images):
    windows = []

    class Watched(ArrayStack):
        def read(self, number, window):
            windows.append(window)
            return super().read(number, window)

    lazy = fuse_lazily(Watched(images), CONFIG, focus_range=(0, 255))
    assert windows == [Window.whole((130, 150))] * len(images)  # one look, for the noise
    windows.clear()

    lazy.fused[:10, :10].compute(scheduler="synchronous")

    assert windows
    assert all(window.bottom < 130 for window in windows)
    assert {window.top for window in windows} == {0}
    assert Window.whole((130, 150)) not in windows


def test_an_unfit_focus_range_is_refused_at_once(images):
    with pytest.raises(InvalidConfigError, match="the focus range is"):
        fuse_lazily(ArrayStack(images), CONFIG, focus_range=(3, 3))
