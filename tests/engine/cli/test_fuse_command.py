"""``qmcif fuse`` decodes its input about once: counted at the decoders, on a picture pair of a camera, reduced with all limits."""

import sys
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import imagecodecs
import numpy as np
import pytest
import tifffile

from qmcif_engine.cli import main
from qmcif_engine.io.input import open as opening
from qmcif_engine.io.input.segments import DEFAULT_CACHE_BYTES, DEFAULT_MEMORY_BYTES
from qmcif_engine.io.output.formats import check_target
from qmcif_engine.io.tiff import tiff_pages

SHAPE = (1200, 1800, 3)
"""Just large enough that not all of it is looked at to settle the focus range."""

STACK_BYTES = 2 * 1200 * 1800 * 3
CAMERA_BYTES = 2 * 4000 * 6000 * 3
"""What a pair of 24 megapixels takes: limits are reduced as much as the pictures are."""

N_BYTES_OF_DEEP = 2
"""Such a pair of 16 bits per sample is larger than what is held in memory."""

LARGEST_SHARE = 1.8
LARGEST_N_OPENED = 1
SETTINGS = ["--set", "measure=laplacian", "--set", "tile_px=512"]
CHEAP = [*SETTINGS, "--set", "smoothness=0", "--set", "effort=fast"]


def write_jpeg(path, image):
    path.write_bytes(imagecodecs.jpeg_encode(image, level=90))


def write_png(path, image):
    path.write_bytes(imagecodecs.png_encode(image, level=1))


KINDS = {
    "PNG": (".png", write_png),
    "JPEG": (".jpg", write_jpeg),
    "strips": (".tif", partial(tifffile.imwrite, photometric="rgb", compression="zlib", rowsperstrip=8)),
    "plain strips": (".tif", partial(tifffile.imwrite, photometric="rgb", rowsperstrip=8)),
    "tiles": (".tif", partial(tifffile.imwrite, photometric="rgb", compression="zlib", tile=(128, 128))),
}


@pytest.fixture(scope="module")
def images():
    coarse = np.random.default_rng(0).integers(0, 255, (150, 225, 3), np.uint8)
    first = np.kron(coarse, np.ones((8, 8, 1), np.uint8))
    return first, np.roll(first, 1, axis=0)


@pytest.fixture
def decoded(monkeypatch):
    """Return where the bytes that leave the decoders are counted, or that are read where nothing is to be decoded."""
    counted = Counter()

    def count(name, target, size_of):
        original = getattr(target, name)

        def counting(*given):
            result = original(*given)
            counted["bytes"] += size_of(result, *given)
            return result

        monkeypatch.setattr(target, name, counting)

    count("_decode_upright", opening.WholeFileSource, lambda picture, source, path: picture.nbytes)
    count("_decode", tiff_pages.TiffPlane, lambda segment, plane, index, stream: segment.nbytes)
    count("_fill_from_rows", tiff_pages.TiffPlane, lambda nothing, plane, planes, window, stream: planes.nbytes)
    return counted


opened = Counter()
is_counting = False


def count_opened(event, details):
    if is_counting and event == "open" and isinstance(details[0], str):
        opened[Path(details[0]).name] += 1


@contextmanager
def counted_opens():
    """Count how often each file is opened, by whatever means: a hook of the interpreter, which stays, but is deaf afterwards."""
    global is_counting
    if not opened:
        sys.addaudithook(count_opened)
    opened.clear()
    is_counting = True
    try:
        yield opened
    finally:
        is_counting = False
        opened["the hook"] += 1  # is there


def reduce_limits(monkeypatch, *, camera_bytes):
    """Reduce what may be held decoded as much as the pictures are, for otherwise all of them would fit into the smallest cache."""
    share = STACK_BYTES / camera_bytes
    limits = {"cache_bytes": int(share * DEFAULT_CACHE_BYTES), "memory_bytes": int(share * DEFAULT_MEMORY_BYTES)}
    monkeypatch.setattr("qmcif_engine.cli.stacks.open_stack", partial(opening.open_stack, **limits))


def fuse_pair(images, kind, folder, *options):
    """Write a pair, fuse it, and return how often each of its files was opened."""
    suffix, write = KINDS[kind]
    paths = [folder / f"{number}{suffix}" for number in range(2)]
    for path, image in zip(paths, images, strict=True):
        write(path, image)
    with counted_opens() as times:
        assert main(["fuse", *map(str, paths), "-o", str(folder / "fused.tif"), *CHEAP, *options]) == 0
    assert images[0].shape == SHAPE
    return [times[path.name] for path in paths]


DECODED = [kind for kind in KINDS if kind != "plain strips"]
"""Plain strips are not decoded: windows of them are read where they lie."""


@pytest.mark.parametrize(("kind", "options"), [*((kind, []) for kind in DECODED), ("strips", ["--quiet"])])
def test_a_pair_is_decoded_about_once_and_each_file_opened_a_few_times(images, kind, options, decoded, monkeypatch, tmp_path):
    reduce_limits(monkeypatch, camera_bytes=CAMERA_BYTES)
    times = fuse_pair(images, kind, tmp_path, *options)
    assert STACK_BYTES <= decoded["bytes"] <= LARGEST_SHARE * STACK_BYTES
    assert all(1 <= n_opened <= LARGEST_N_OPENED for n_opened in times)


@pytest.mark.parametrize("n_bytes", [1, N_BYTES_OF_DEEP])
def test_plain_samples_are_read_through_few_openings(images, n_bytes, monkeypatch, tmp_path):
    reduce_limits(monkeypatch, camera_bytes=n_bytes * CAMERA_BYTES)
    times = fuse_pair(images, "plain strips", tmp_path)
    assert all(1 <= n_opened <= LARGEST_N_OPENED for n_opened in times)


@pytest.mark.parametrize(("kind", "options"), [*((kind, []) for kind in DECODED), ("strips", ["--quiet"])])
def test_a_pair_too_large_for_memory_is_decoded_about_once_too(images, kind, options, decoded, monkeypatch, tmp_path):
    reduce_limits(monkeypatch, camera_bytes=N_BYTES_OF_DEEP * CAMERA_BYTES)
    times = fuse_pair(images, kind, tmp_path, *options, "--scratch", str(tmp_path))
    assert STACK_BYTES <= decoded["bytes"] <= LARGEST_SHARE * STACK_BYTES
    assert all(1 <= n_opened <= LARGEST_N_OPENED for n_opened in times)


def test_a_target_is_checked_once_before_the_run(monkeypatch, tmp_path):
    tifffile.imwrite(tmp_path / "stack.tif", np.random.default_rng(0).integers(0, 255, (2, 60, 70), np.uint8))
    checked = []

    def checking(*given, **how):
        checked.append(given)
        return check_target(*given, **how)

    monkeypatch.setattr("qmcif_engine.pipeline.outputs.check_target", checking)

    assert main(["fuse", str(tmp_path / "stack.tif"), "-o", str(tmp_path / "made.ome.tif"), *CHEAP, "--quiet"]) == 0
    assert len(checked) == 1
