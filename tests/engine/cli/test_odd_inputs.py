"""Valid inputs that are rare: narrow, huge or tiny numbers, odd names. No traceback, and no RuntimeWarning, which counts as one here."""

from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine import read_image, write_image
from qmcif_engine.errors import InvalidImageError
from qmcif_engine.io.input.file_order import natural_key
from qmcif_engine.stack.alignment.suggestion import previews_for_alignment, suggest_alignment
from qmcif_engine.stack.exposure import estimate_exposure, previews_for_exposure, suggest_even_exposure
from qmcif_engine.stack.stack import Stack

LARGEST = np.finfo(np.float64).max
EXTREMES = {
    "huge": lambda picture: picture * 1e300,
    "both ends": lambda picture: (picture - 0.5) * 0.5 * LARGEST,
    "all of the range": lambda picture: (picture * 2 - 1) * LARGEST,
    "nothing but the ends": lambda picture: np.where(picture > 0.5, LARGEST, -LARGEST),
    "all below zero": lambda picture: -picture * LARGEST,
    "largest beside least": lambda picture: np.where(picture > 0.5, LARGEST, 5e-324),
    "tiny": lambda picture: picture * 1e-300,
    "subnormal": lambda picture: picture * 5e-322,
    "far apart": lambda picture: np.where(picture > 0.5, 1e300, 1e-300),
    "on a pedestal": lambda picture: picture + 1e17,
    "one pixel": lambda picture: np.where(picture == picture.max(), 1e308, 0),
    "constant": lambda picture: np.full_like(picture, 1e308),
}


@pytest.fixture
def fused(run_limited, tmp_path):
    """Return what the command says that fuses some arrays."""

    def fuse(pictures, *options):
        paths = []
        for number, picture in enumerate(pictures):
            paths.append(tmp_path / f"{number}.tif")
            tifffile.imwrite(paths[-1], picture, photometric="minisblack")
        command = ("fuse", *paths, "-o", tmp_path / "fused.tif", "--workers", "1", *options)
        done = run_limited(*command, cpu_seconds=120, n_bytes=3 * 10**9)
        assert done.returncode == 0, done
        return done

    return fuse


@pytest.mark.parametrize(
    "options", [(), ("--align", "similarity", "--even-exposure"), ("--preset", "paper")], ids=["plain", "aligned", "paper"]
)
@pytest.mark.parametrize("shape", [(1, 64), (64, 1), (1, 1), (2, 2), (3, 500)])
def test_images_may_be_a_pixel_wide_or_high(fused, shape, options):
    pictures = np.random.default_rng(0).integers(0, 200, (3, *shape)).astype(np.uint8)

    fused(pictures, *options)


@pytest.mark.parametrize("preset", ["default", "paper"])
@pytest.mark.parametrize("kind", EXTREMES)
def test_samples_may_be_as_large_or_small_as_floats_go(fused, kind, preset):
    picture = np.random.default_rng(1).random((60, 80))

    fused([EXTREMES[kind](picture), EXTREMES[kind](picture[::-1]), EXTREMES[kind](picture[:, ::-1])], "--preset", preset)


CLAIMED = Stack(names=("a", "b", "c"), image_shape=(1, 10**9), dtype=np.dtype(np.uint8), read=None)
"""A stack that is described and may not be read."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_brightness_is_evened_out_at_the_ends_of_the_range(fused, tmp_path, dtype):
    picture = (np.random.default_rng(1).random((60, 80)) * 2 - 1) * float(np.finfo(dtype).max)

    fused([picture.astype(dtype), (picture / 2).astype(dtype), picture[::-1].astype(dtype)], "--even-exposure", "--align", "similarity")
    assert np.isfinite(tifffile.imread(tmp_path / "fused.tif")).all()


@pytest.mark.parametrize("shape", [(1000, 1), (5000, 2), (1000, 1, 3)])
def test_tall_and_narrow_images_become_png(tmp_path, shape):
    """The encoder's own guess at the size of the file is too small for them."""
    image = np.random.default_rng(2).integers(0, 256, shape).astype(np.uint8)
    write_image(tmp_path / "tall.png", image)
    np.testing.assert_array_equal(np.squeeze(read_image(tmp_path / "tall.png").samples), np.squeeze(image))


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="a file of Linux that waits for news without end")
@pytest.mark.parametrize("option", ["--config", "--transforms", "--guide", None])
def test_a_file_that_the_system_makes_up_is_not_waited_for(run_limited, tmp_path, option):
    for number in range(2):
        tifffile.imwrite(tmp_path / f"{number}.tif", np.zeros((20, 20), np.uint8))
    (tmp_path / "2.tif").symlink_to("/proc/kmsg")
    given = ("0.tif", "2.tif") if option is None else ("0.tif", "1.tif", option, "2.tif")
    done = run_limited("fuse", *given, "-o", "fused.tif", wall_seconds=60, folder=tmp_path)
    assert done.returncode in (0, 2)  # 0 where nothing is taken for settings that change nothing
    assert "Traceback" not in done.stderr


def test_a_target_behind_a_link_to_itself_is_refused(run_limited, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    picture = np.zeros((20, 20), np.uint8)
    for number in range(2):
        tifffile.imwrite(tmp_path / f"{number}.tif", picture)
    done = run_limited("fuse", tmp_path / "0.tif", tmp_path / "1.tif", "-o", tmp_path / "loop" / "fused.tif")
    assert done.returncode == 2
    assert "loop" in done.stderr


def test_hints_on_images_that_are_too_narrow_for_a_preview_are_left_out():
    stack = CLAIMED

    assert previews_for_alignment(stack) == previews_for_exposure(stack) == []
    assert suggest_alignment(stack) is suggest_even_exposure(stack) is None


def test_brightness_of_images_that_are_too_narrow_is_not_compared():
    with pytest.raises(InvalidImageError, match=r"1000000000 x 1 pixels; .* leave out --even-exposure"):
        estimate_exposure(CLAIMED)


@pytest.mark.parametrize("axes", ["CZYX", "TCZYX"])
def test_axes_of_length_one_need_not_be_named(run_limited, tmp_path, axes):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    samples = np.random.default_rng(2).integers(0, 200, (1, 2, 3, 64, 70)).astype(np.uint8)
    group.create_array("0", data=samples, chunks=(1, 1, 1, 64, 70))
    multiscale = {"axes": [{"name": name} for name in "tczyx"], "datasets": [{"path": "0"}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [multiscale]}

    done = run_limited("fuse", tmp_path / "a.zarr", "-o", tmp_path / "a.ome.tif", "--axes", axes, cpu_seconds=60, n_bytes=3 * 10**9)

    assert done.returncode == 0, done
    assert tifffile.imread(tmp_path / "a.ome.tif").shape == (2, 64, 70)


def test_digits_that_are_no_numbers_sort_as_letters(run_limited, tmp_path):
    assert sorted(["b²", "a10", "a²", "a2", "a٣"], key=natural_key) == ["a2", "a10", "a²", "a٣", "b²"]
    folder = tmp_path / "field ²"
    folder.mkdir()
    for name in ("a².tif", "a³.tif", "a①.tif"):
        tifffile.imwrite(folder / name, np.zeros((20, 30), np.uint8), photometric="minisblack")

    done = run_limited("fuse", folder, "-o", tmp_path / "fused².png", cpu_seconds=60, n_bytes=3 * 10**9)

    assert done.returncode == 0, done
