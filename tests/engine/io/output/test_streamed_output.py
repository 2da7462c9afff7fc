from __future__ import annotations

import errno
import hashlib
import json
import math
import resource
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine.errors import Cancelled, ImageFileError, InvalidImageError, OutputError
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import check_target, place_contents
from qmcif_engine.io.output.placement import map_path
from qmcif_engine.io.output.windowed_image import ArrayImage, assemble_content
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.window import Window

SUFFIXES = (".ome.tif", ".ome.zarr", ".tif", ".png", ".jpg")
PROVENANCE = {"version": "1.2.3", "identity": "abc", "inputs": ["a.png", "b.png"]}
METADATA = ImageMetadata(pixel_size=(0.5, 0.25), unit="micrometer", dpi=(300.0, 200.0))
N_MEGABYTES_HELD = 40  # a few blocks of 512 x 512 RGB with their copies, and what the libraries keep


class GeneratedPicture:
    """An image that is nowhere whole, and knows the largest window it was asked for."""

    def __init__(self, shape: tuple[int, ...], dtype: str = "uint8") -> None:
        self.shape, self.dtype, self.largest_n_pixels = shape, np.dtype(dtype), 0

    def read(self, window: Window) -> np.ndarray:
        self.largest_n_pixels = max(self.largest_n_pixels, window.shape[0] * window.shape[1])
        rows, columns = np.ogrid[window.top : window.bottom, window.left : window.right]
        gray = rows * 7 + columns * 3 + ((rows * columns) >> 7)
        planes = [gray + 40 * channel for channel in range(self.shape[2])] if len(self.shape) == 3 else [gray]
        samples = np.stack(planes, axis=-1).astype(self.dtype)
        return samples if len(self.shape) == 3 else samples[..., 0]


def stream(target: Path, picture, **options) -> None:
    described = {"alpha": None, "metadata": METADATA, "provenance": PROVENANCE}
    content = assemble_content(picture, **{name: options.pop(name, value) for name, value in described.items()})
    place_contents({target: content}, **{"overwrite": False} | options)


def whole(picture: GeneratedPicture) -> np.ndarray:
    return picture.read(Window.whole(picture.shape))


def first_level(target: Path) -> np.ndarray:
    if target.suffix == ".zarr":
        samples = zarr.open_array(target / "0", mode="r")[...]
        return np.moveaxis(samples, 0, -1) if samples.ndim == 3 else samples
    return tifffile.imread(target) if ".tif" in target.name else read_image(target).samples


def digest(target: Path) -> dict[str, str]:
    files = [target] if target.is_file() else sorted(path for path in target.rglob("*") if path.is_file())
    return {str(path.relative_to(target)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("suffix", "dtype", "shape"),
    [
        (".ome.tif", "uint8", (600, 530)),
        (".ome.tiff", "uint16", (530, 600, 3)),
        (".OME.TIF", "float32", (600, 530)),
        (".ome.zarr", "float64", (530, 600, 3)),
        (".ome.zarr", "uint16", (600, 530)),
        (".zarr", "uint8", (530, 600, 3)),
        (".tif", "float32", (530, 600, 3)),
    ],
)
def test_every_sample_type_comes_back(tmp_path, suffix, dtype, shape):
    picture = GeneratedPicture(shape, dtype)
    stream(tmp_path / f"p{suffix}", picture)
    samples = first_level(tmp_path / f"p{suffix}")
    assert samples.dtype == dtype
    np.testing.assert_array_equal(samples, whole(picture))
    assert names_in(tmp_path) == [f"p{suffix}"]


@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr", ".tif", ".png"])
@pytest.mark.parametrize("shape", [(20, 30), (20, 30, 3)])
def test_alpha_becomes_the_last_channel(tmp_path, suffix, shape):
    picture, alpha = GeneratedPicture(shape), np.arange(600, dtype=np.uint8).reshape(20, 30)
    stream(tmp_path / f"p{suffix}", picture, alpha=ArrayImage(alpha))
    if suffix == ".png":
        np.testing.assert_array_equal(read_image(tmp_path / "p.png").alpha, alpha)
    else:
        np.testing.assert_array_equal(first_level(tmp_path / f"p{suffix}"), np.dstack([whole(picture), alpha]))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_same_picture_gives_the_same_bytes_at_any_time_and_place(tmp_path, suffix, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "scratch").mkdir()
    picture = GeneratedPicture((700, 1100, 3))
    stream(tmp_path / f"one{suffix}", picture)
    monkeypatch.setattr("time.time", lambda: 2e9)
    shuffled = dict(reversed(PROVENANCE.items()))
    target = tmp_path / "elsewhere" / f"two{suffix}"
    stream(target, ArrayImage(np.asfortranarray(whole(picture))), provenance=shuffled, scratch_folder=tmp_path / "scratch")
    assert digest(tmp_path / f"one{suffix}") == digest(target)
    assert names_in(tmp_path / "scratch") == []


def prepare_streaming(folder, suffix, shape):
    stream(folder / f"warm{suffix}", GeneratedPicture((600, 600, 3)))

    def stream_in_blocks():
        picture = GeneratedPicture(shape)
        stream(folder / f"p{suffix}", picture)
        assert picture.largest_n_pixels <= 1024 * 1024

    return stream_in_blocks


@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr"])
def test_memory_holds_a_few_blocks_however_large_the_picture_is(tmp_path, suffix, peak_of):
    shape = (4096, 4096, 3)
    assert peak_of(prepare_streaming, tmp_path, suffix, shape) < N_MEGABYTES_HELD * 2**20 < math.prod(shape)


def test_large_tiff_is_tiled_and_small_tiff_is_not(tmp_path):
    stream(tmp_path / "small.tif", GeneratedPicture((600, 600, 3)))
    picture = GeneratedPicture((4800, 4800, 3))
    stream(tmp_path / "large.tif", picture)
    with tifffile.TiffFile(tmp_path / "small.tif") as small, tifffile.TiffFile(tmp_path / "large.tif") as large:
        assert not small.pages.first.is_tiled
        assert large.pages.first.tile == (512, 512)
        assert not large.is_bigtiff
        assert json.loads(large.pages.first.description) == {"qmcif": PROVENANCE}
        assert large.pages.first.software == "napari-qmcif 1.2.3"
    assert picture.largest_n_pixels <= 512 * 512
    np.testing.assert_array_equal(read_image(tmp_path / "large.tif").samples[4700:, 4700:], picture.read(Window(4700, 4700, 4800, 4800)))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_progress_counts_to_the_end(tmp_path, suffix):
    seen = []
    stream(tmp_path / f"p{suffix}", GeneratedPicture((1100, 700, 3)), on_progress=lambda done, total: seen.append((done, total)))
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert {total for _, total in seen} == {len(seen)}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("n_blocks", [1, 5])
def test_cancelling_leaves_nothing_behind(tmp_path, suffix, n_blocks):
    (tmp_path / "scratch").mkdir()
    calls = []

    def check_cancelled():
        calls.append(1)
        if len(calls) == n_blocks:
            msg = "cancelled"
            raise Cancelled(msg)

    with pytest.raises(Cancelled):
        stream(
            tmp_path / f"p{suffix}", GeneratedPicture((1100, 700, 3)), check_cancelled=check_cancelled, scratch_folder=tmp_path / "scratch"
        )
    assert names_in(tmp_path) == ["scratch"]
    assert names_in(tmp_path / "scratch") == []


@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr", ".tif"])
def test_what_cannot_be_read_keeps_its_own_reason(tmp_path, suffix):
    class Damaged(GeneratedPicture):
        def read(self, window):
            msg = "a tile is missing"
            raise ImageFileError(msg)

    with pytest.raises(ImageFileError, match="a tile is missing"):
        stream(tmp_path / f"p{suffix}", Damaged((60, 50)))
    assert names_in(tmp_path) == []


@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr"])
def test_a_file_system_that_refuses_more_bytes_is_reported_with_its_error_number(tmp_path, suffix):
    """A limit on the size of files fails as a full disk does, in the middle of a write."""
    noise = np.random.default_rng(3).integers(0, 255, (1100, 1100, 3), np.uint8)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        with pytest.raises(OutputError, match=r"cannot be written \(File too large\); a writable place with room is needed") as caught:
            stream(tmp_path / f"p{suffix}", ArrayImage(noise))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG
    assert names_in(tmp_path) == []


def test_a_scratch_folder_that_is_none_is_named(tmp_path):
    with pytest.raises(OutputError, match=r"none' cannot be written \(No such file or directory\)"):
        stream(tmp_path / "p.ome.tif", GeneratedPicture((600, 600)), scratch_folder=tmp_path / "none")
    assert names_in(tmp_path) == []


@pytest.mark.parametrize(("suffix", "shape"), [(".png", (20_000, 20_000)), (".jpg", (20_000, 20_000, 3))])
def test_pictures_too_large_to_be_held_are_refused_before_any_work(tmp_path, suffix, shape):
    expected = "would have 20000 x 20000 pixels; as (PNG|JPEG) at most 268435456 are written, .*; use .ome.tif or .ome.zarr"
    picture = GeneratedPicture(shape)
    with pytest.raises(OutputError, match=expected):
        check_target(tmp_path / f"p{suffix}", overwrite=False, samples_dtype="uint8", shape=shape)
    with pytest.raises(OutputError, match=expected):
        stream(tmp_path / f"p{suffix}", picture)
    assert picture.largest_n_pixels == 0


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_other_channels_than_colors_are_refused_where_the_format_has_no_place(tmp_path, suffix):
    expected = "would have to hold 5 channels; (PNG|JPEG) holds gray or RGB; use .ome.tif or .ome.zarr"
    with pytest.raises(OutputError, match=expected):
        stream(tmp_path / f"p{suffix}", GeneratedPicture((20, 30, 5)))
    check_target(tmp_path / "p.ome.zarr", overwrite=False, samples_dtype="float32", has_alpha=True, shape=(10**6, 10**6, 5))


@pytest.mark.parametrize("shape", [(4,), (0, 5), (2, 4, 5, 3), (4, 5, 0), (4, 5, 1)])
def test_arrays_that_are_no_picture_are_refused(tmp_path, shape):
    with pytest.raises(InvalidImageError, match=r"was to be written; \(H, W\) or \(H, W, C\) with at least 2 channels and no empty"):
        stream(tmp_path / "p.ome.tif", ArrayImage(np.zeros(shape, np.uint8)))


def stream_all(tmp_path: Path, target: Path, **options) -> None:
    maps = {"source_index": GeneratedPicture((700, 600), "uint16"), "confidence": GeneratedPicture((700, 600), "float32")}
    pictures = {**{map_path(tmp_path / "maps", name): plane for name, plane in maps.items()}, target: GeneratedPicture((700, 600, 3))}
    contents = {path: assemble_content(image, None, metadata=METADATA, provenance=PROVENANCE) for path, image in pictures.items()}
    place_contents(contents, **{"overwrite": False, "folders": [tmp_path / "maps"]} | options)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("suffix", [".ome.tif", ".ome.zarr"])
def test_a_failure_at_the_last_move_takes_picture_and_maps_back(tmp_path, suffix, overwrite, monkeypatch):
    if overwrite:
        stream(tmp_path / f"p{suffix}", GeneratedPicture((30, 20)))
    before = digest(tmp_path / f"p{suffix}") if overwrite else None

    def fail(*_args, **_options):
        raise KeyboardInterrupt

    if suffix == ".ome.tif":
        monkeypatch.setattr(Path, "replace" if overwrite else "hardlink_to", fail)
    else:
        ordinary = Path.rename

        def fail_for_the_new(self, target):
            moved = ordinary(self, target)
            if target.name == "p.ome.zarr" and (target / "1").exists():
                fail()
            return moved

        monkeypatch.setattr(Path, "rename", fail_for_the_new)
    with pytest.raises(KeyboardInterrupt):
        stream_all(tmp_path, tmp_path / f"p{suffix}", overwrite=overwrite)
    assert names_in(tmp_path) == ([f"p{suffix}"] if overwrite else [])
    if overwrite:
        assert digest(tmp_path / f"p{suffix}") == before
