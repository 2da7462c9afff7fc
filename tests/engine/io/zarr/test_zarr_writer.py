"""A store that grows tile by tile: the bytes of one that is written at once, and nothing left behind by who comes late."""

import hashlib

import numpy as np
import pytest
import zarr

from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.output.formats import place_contents
from qmcif_engine.io.output.windowed_image import ArrayImage, ImageContent, assemble_content, block_windows
from qmcif_engine.io.zarr import zarr_writer
from qmcif_engine.io.zarr.zarr_writer import Extremes, ImageStore, measure_extremes
from qmcif_engine.pipeline.active_run import grow_smaller_levels
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.window import Window

METADATA = ImageMetadata(pixel_size=(0.5, 0.25), unit="micrometer")
PROVENANCE = {"identity": "abc"}


def has(level, window):
    """Whether all files of a window are there."""
    try:
        return all(isinstance(content, bytes) for content in level.contents(window))
    except FileNotFoundError:
        return False


def noise(shape, dtype="uint8"):
    return np.random.default_rng(7).integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)


def digests(folder):
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def planned(folder, samples, *, n_colors=None, chunk_px=512, block_px=(512, 512)):
    n_channels = samples.shape[2] if samples.ndim == 3 else 1
    return ImageStore(
        folder=folder / "picture.zarr",
        scratch_folder=folder,
        shape=samples.shape,
        dtype=samples.dtype,
        n_colors=n_colors or n_channels,
        chunk_px=chunk_px,
        block_px=block_px,
    )


def grown(folder, samples, *, has_alpha=False, **layout):
    store = planned(folder, samples, n_colors=samples.shape[2] - 1 if has_alpha else None, **layout)
    store.begin()
    extremes = Extremes(store.n_colors)
    tops, lefts = (range(0, side, step) for side, step in zip(samples.shape[:2], store.block_px, strict=True))
    for top, left in [(top, left) for left in lefts for top in tops][::-1]:
        window = Window(top, left, top + store.block_px[0], left + store.block_px[1]).common(Window.whole(samples.shape))
        store.levels[0].write(window, samples[window.slices])
        extremes.widen(measure_extremes(samples[window.slices], store.n_colors))
    grow_smaller_levels(store, tiles_at_once=2, client=None, is_cancelled=None)
    content = ImageContent(image=store.levels[0], has_alpha=has_alpha, metadata=METADATA, provenance=PROVENANCE)
    store.finish(content, extremes)
    return store


@pytest.mark.parametrize(
    ("samples", "has_alpha"),
    [
        (noise((700, 1100)), False),
        (noise((1300, 530, 3), "uint16"), False),
        (noise((600, 520, 4)), True),
        (noise((600, 520, 2), "uint16"), True),
        (noise((40, 50, 5)), False),
        (noise((530, 600)).astype(np.float32), False),
    ],
)
@pytest.mark.parametrize("block_px", [(512, 512), (1024, 1536)])
def test_the_bytes_are_those_of_a_picture_that_is_written_at_once(samples, has_alpha, block_px, tmp_path):
    grown(tmp_path, samples, has_alpha=has_alpha, block_px=block_px)
    colors, alpha = (samples[..., :-1], ArrayImage(samples[..., -1])) if has_alpha else (samples, None)
    colors = colors[..., 0] if has_alpha and samples.shape[2] == 2 else colors
    content = assemble_content(ArrayImage(colors), alpha, metadata=METADATA, provenance=PROVENANCE)
    place_contents({tmp_path / "whole.zarr": content}, overwrite=False)

    assert digests(tmp_path / "picture.zarr") == digests(tmp_path / "whole.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["picture.zarr", "whole.zarr"]


@pytest.mark.parametrize("shape", [(700, 530), (530, 700, 3)])
def test_chunks_that_would_be_too_many_files_share_one_for_each_block(shape, monkeypatch, tmp_path):
    samples = noise(shape)
    plain = grown(tmp_path, samples, chunk_px=64, block_px=(128, 192)).folder.rename(tmp_path / "plain.zarr")
    monkeypatch.setattr(zarr_writer, "MOST_CHUNK_FILES", 40)
    store = grown(tmp_path, samples, chunk_px=64, block_px=(128, 192))

    full, smaller = (zarr.open_array(store.folder / name, mode="r") for name in "01")
    assert (full.shards[-2:], full.chunks[-2:]) == ((128, 192), (64, 64))
    assert smaller.shards is None  # few enough
    n_files = {
        name: sum(path.is_file() for path in (folder / "0" / "c").rglob("*")) for name, folder in [("s", store.folder), ("p", plain)]
    }
    assert n_files == {"s": -(-shape[0] // 128) * -(-shape[1] // 192), "p": -(-shape[0] // 64) * -(-shape[1] // 64)}
    with open_stack([store.folder, plain]) as stack:
        for window in (Window.whole(shape), Window(100, 60, 331, 333)):
            for number in range(2):
                np.testing.assert_array_equal(stack.read(number, window), samples[window.slices])


def test_windows_are_known_once_they_are_written_and_read_back(tmp_path):
    samples = noise((300, 200, 3))
    store = planned(tmp_path, samples, chunk_px=64, block_px=(128, 128))
    store.begin()
    first, second = Window(0, 0, 128, 128), Window(256, 128, 300, 200)
    store.levels[0].write(second, samples[second.slices])

    assert (has(store.levels[0], first), has(store.levels[0], second)) == (False, True)
    inner = Window(270, 150, 299, 199)
    np.testing.assert_array_equal(store.levels[0].read(inner), samples[inner.slices])
    store.begin()  # an interrupted run goes on
    assert has(store.levels[0], second)


def test_who_comes_late_fails_and_leaves_nothing(tmp_path):
    samples = noise((100, 90))
    store = grown(tmp_path, samples)
    store.folder.rename(tmp_path / "placed.zarr")
    before = digests(tmp_path)

    with pytest.raises(FileNotFoundError):
        store.levels[0].write(Window.whole(samples.shape), samples)

    assert digests(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["placed.zarr"]


def test_a_chunk_that_is_cut_short_has_no_name(tmp_path, monkeypatch):
    samples = noise((100, 90))
    store = planned(tmp_path, samples)
    store.begin()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        store.levels[0].write(Window.whole(samples.shape), samples)

    assert not has(store.levels[0], Window.whole(samples.shape))
    assert [path.name for path in tmp_path.iterdir()] == ["picture.zarr"]


def test_extremes_are_those_of_finite_colors():
    samples = np.array([[[1.0, 9.0], [np.nan, -9.0]]], np.float32)

    assert measure_extremes(samples, 1).tolist() == [[1.0], [1.0]]
    assert measure_extremes(np.full_like(samples, np.nan), 1).tolist() == [[np.inf], [-np.inf]]


def test_the_blocks_of_a_level_cover_it(tmp_path):
    """Levels of odd sides, whose blocks are not those of the full level."""
    samples = noise((1111, 1777))
    store = grown(tmp_path, samples, chunk_px=128, block_px=(384, 256))

    for level in store.levels:
        assert all(has(level, window) for window in block_windows(level.shape, 128))
