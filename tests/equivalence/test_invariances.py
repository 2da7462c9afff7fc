"""What must not change the result: copies, order, gray as color, bit depth, range of floats, another run."""

import hashlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine import PRESETS, FusionConfig, fuse

SHAPE = (80, 96)
DTYPES = ("uint8", "uint16", "float32", "float64")
SAME_DECISIONS = 0.999
"""Share of pixels that must be decided alike where the samples differ only by scale; the rest may be ties broken by rounding."""


def focus_stack(n_images, *, seed=0, contrast=0.15):
    """Images on the 0-1 scale, each sharp at one depth, and the depth: rings around a point, with edges in every direction."""
    rows, columns = np.indices(SHAPE)
    depth = np.minimum(np.hypot(rows - 35, columns - 40) // 24, n_images - 1).astype(np.intp)
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(*SHAPE, 3)), (0.8, 0.8, 0))
    sharp = np.clip(0.5 + contrast * noise / noise.std(), 0, 1)
    blurred = ndimage.gaussian_filter(sharp, (2, 2, 0))
    return [np.where((depth == number)[..., None], sharp, blurred) for number in range(n_images)], depth


def stack_of(n_images, dtype, *, sigma=0.0, **options):
    """Images of `focus_stack` with noise, in a type."""
    noise = np.random.default_rng(3).normal(0, sigma, (n_images, *SHAPE, 3))
    return stored(np.clip(focus_stack(n_images, **options)[0] + noise, 0, 1), dtype)


def stored(images, dtype):
    """Images of the 0-1 scale in a type, integers over their whole range."""
    if np.dtype(dtype).kind == "f":
        return [image.astype(dtype) for image in images]
    return [np.rint(image * np.iinfo(dtype).max).astype(dtype) for image in images]


def share_alike(first, second):
    return np.mean(first.source_index == second.source_index)


def assert_same_bytes(first, second):
    for name in ("fused", "source_index", "base_map", "detail_map", "confidence"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes(), name


def assert_in_range(fused, images):
    """Whatever was blended lies between its sources in the window of the low pass, and nearly everywhere between those of the pixel."""
    rounding = 4 * np.finfo(fused.dtype).eps * np.abs(images).max() if fused.dtype.kind == "f" else 0
    low, high = np.min(images, axis=0), np.max(images, axis=0)
    assert ((fused >= low - rounding) & (fused <= high + rounding)).mean() > 0.999
    assert (fused >= ndimage.minimum_filter(low, (13, 13, 1)) - rounding).all()
    assert (fused <= ndimage.maximum_filter(high, (13, 13, 1)) + rounding).all()


def is_far(depth):
    """Where a decision has no edge nearby."""
    return ndimage.maximum_filter(depth, 17) == ndimage.minimum_filter(depth, 17)


# --- copies ---


@pytest.mark.parametrize(
    ("dtype", "n_images", "channel", "preset"),
    [
        *(("uint8", 2, 0, "default"), ("uint16", 3, ..., "default"), ("float32", 12, ..., "default"), ("float64", 2, 1, "default")),
        *(("bool", 2, 0, "default"), ("uint32", 3, 0, "default"), ("uint16", 2, ..., "paper")),
    ],
)
def test_identical_images_return_the_image_exactly(dtype, n_images, channel, preset):
    picture = focus_stack(1)[0][0][:33, :41, channel]
    image = picture > 0.5 if dtype == "bool" else stored([picture], dtype)[0]

    result = fuse([image.copy() for _ in range(n_images)], PRESETS[preset])

    assert result.fused.dtype == image.dtype
    assert result.fused.tobytes() == image.tobytes()


@pytest.mark.parametrize("copied", [0, 1])
def test_a_copy_among_the_images_does_not_make_its_sharp_parts_undecided(copied):
    images, depth = stack_of(2, "uint8"), focus_stack(2)[1]

    result = fuse([*images, images[copied]])

    came_from = np.array([0, 1, copied])[result.source_index]
    assert np.mean((came_from == depth)[is_far(depth)]) >= 0.99


# --- order ---


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_exchanging_two_images_exchanges_the_index_and_leaves_the_picture(dtype):
    first, second = stack_of(2, dtype)

    result, exchanged = fuse([first, second]), fuse([second, first])

    np.testing.assert_array_equal(exchanged.source_index, 1 - result.source_index)
    np.testing.assert_array_equal(exchanged.confidence, result.confidence)
    one_level = 1 if dtype == "uint8" else 4 * np.finfo(dtype).eps
    assert np.abs(exchanged.fused.astype(np.float64) - result.fused).max() <= one_level


@pytest.mark.parametrize(
    ("order", "sigma", "changes"),
    [
        ((2, 1, 0), 0.0, {}),
        ((3, 2, 1, 0), 0.06, {}),
        *(((1, 2, 0), 0.0, {"order": "none", **changes}) for changes in ({}, {"is_low_rank": True, "iterations": 2}, {"result": "base"})),
        ((0, 2, 1), 0.0, {"order": "none", "similarity": "modulus"}),
    ],
)
def test_reversing_a_stack_or_permuting_images_without_an_order_permutes_the_index_and_leaves_the_picture(order, sigma, changes):
    images, config = stack_of(len(order), "uint8", sigma=sigma), FusionConfig().replaced(changes)

    result, permuted = fuse(images, config), fuse([images[number] for number in order], config)

    assert len(np.unique(result.source_index)) >= 3
    is_alike = np.array(order)[permuted.source_index] == result.source_index
    assert is_alike.mean() >= SAME_DECISIONS
    assert np.abs(permuted.fused[is_alike].astype(int) - result.fused[is_alike]).max() <= 1
    assert np.mean(np.isclose(permuted.confidence, result.confidence, atol=1e-3)) >= SAME_DECISIONS
    assert permuted.focus_range == result.focus_range


# --- samples ---


@pytest.mark.parametrize(("dtype", "n_images", "sigma"), [("uint8", 2, 0.0), ("uint16", 3, 0.05), ("float32", 4, 0.2), ("float64", 3, 0.0)])
def test_gray_equals_color_with_equal_channels_and_samples_lie_between_those_of_the_images(dtype, n_images, sigma):
    images = stack_of(n_images, dtype, sigma=sigma)
    gray = [image[..., 1] for image in images]

    of_gray, of_color, result = fuse(gray), fuse([np.repeat(image[..., None], 3, axis=-1) for image in gray]), fuse(images)

    assert_in_range(result.fused, images)
    assert of_gray.focus_range == of_color.focus_range
    np.testing.assert_array_equal(of_gray.source_index, of_color.source_index)
    for channel in range(3):
        np.testing.assert_array_equal(of_color.fused[..., channel], of_gray.fused)
    # means over one plane and over three equal ones differ in the last bit
    np.testing.assert_allclose(of_gray.confidence, of_color.confidence, rtol=0, atol=16 * np.finfo(np.float32).eps)


@pytest.mark.parametrize(("bits", "contrast"), [(10, 0.15), (12, 0.05), (14, 0.15)])
def test_narrow_data_in_16_bits_are_decided_as_if_they_filled_the_type(bits, contrast):
    full = stack_of(2, "uint16", contrast=contrast)
    narrow = [image >> (16 - bits) for image in full]

    result = fuse(narrow)

    for other in (full, [image << (16 - bits) for image in narrow]):
        assert share_alike(result, fuse(other)) >= SAME_DECISIONS
    assert result.fused.max() < 2**bits


@pytest.mark.parametrize("contrast", [65535, 180])
def test_16_bit_detail_is_seen_and_kept_even_in_the_low_byte_alone(contrast):
    unit, depth = focus_stack(2)
    images = [(65535 - contrast + np.rint(contrast * image)).astype(np.uint16) for image in unit]

    result = fuse(images)

    assert len(np.unique(result.fused & 0xFF)) > 100
    assert np.mean(result.source_index == depth) > 0.97
    assert_in_range(result.fused, images)
    inside, taken = is_far(result.source_index), np.where(result.source_index[..., None] == 0, *images)
    assert inside.mean() > 0.3
    np.testing.assert_array_equal(result.fused[inside], taken[inside])


@pytest.mark.parametrize(
    ("dtype", "scale", "offset"),
    [
        *((dtype, *mapped) for dtype in ("float32", "float64") for mapped in ((1, 0), (1e-30, 0), (1e30, 0))),
        *(("float32", 2, -1), ("float64", 1e6, -5e5), ("float32", -1, 0), ("float32", 1, 1000), ("float64", 1, 1e9), ("uint8", 255, 0)),
    ],
)
def test_samples_of_any_type_and_range_are_decided_alike(dtype, scale, offset):
    unit, _ = focus_stack(2)
    moved = [np.rint(scale * image).astype(dtype) if dtype == "uint8" else (scale * image + offset).astype(dtype) for image in unit]

    result = fuse(moved)

    assert share_alike(result, fuse(unit)) >= SAME_DECISIONS
    assert result.fused.dtype == dtype
    assert_in_range(result.fused, moved)


# --- storage and repetition ---


def test_memory_layout_and_byte_order_do_not_change_a_byte():
    images = stack_of(2, "uint16")
    expected = fuse(images, with_maps=True)

    assert_same_bytes(fuse([np.asfortranarray(image) for image in images], with_maps=True), expected)
    assert_same_bytes(fuse([np.repeat(image, 2, axis=1)[:, ::2] for image in images], with_maps=True), expected)
    swapped = fuse([image.astype(image.dtype.newbyteorder(">")) for image in images], with_maps=True)
    np.testing.assert_array_equal(swapped.source_index, expected.source_index)
    np.testing.assert_array_equal(swapped.fused, expected.fused)


SLOWER = {"is_low_rank": True, "iterations": 2}


@pytest.mark.parametrize("changes", [{}, SLOWER], ids=str)
def test_two_threads_at_once_give_the_same_bytes_as_one_after_the_other(changes):
    stacks = [stack_of(2, "uint8", seed=seed) for seed in (0, 1)]
    config = FusionConfig().replaced(changes)
    expected = [fuse(images, config, with_maps=True) for images in stacks]
    both_started = threading.Barrier(2)

    def fuse_together(images):
        both_started.wait(timeout=60)
        return fuse(images, config, with_maps=True)

    with ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(fuse_together, stacks))

    for result, alone in zip(results, expected, strict=True):
        assert_same_bytes(result, alone)


def test_another_process_with_more_threads_gives_the_same_bytes(tmp_path, monkeypatch):
    images = stack_of(2, "uint8")
    np.save(tmp_path / "images.npy", np.stack(images))
    program = (
        "import hashlib, sys, numpy; from qmcif_engine import FusionConfig, fuse;"
        "result = fuse(numpy.load(sys.argv[1]), FusionConfig().replaced({'is_low_rank': True, 'iterations': 2}));"
        "print(hashlib.sha256(result.fused.tobytes() + result.confidence.tobytes()).hexdigest())"
    )
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "4")

    command = [sys.executable, "-c", program, str(tmp_path / "images.npy")]
    elsewhere = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    here = fuse(images, FusionConfig().replaced(SLOWER))
    assert elsewhere == hashlib.sha256(here.fused.tobytes() + here.confidence.tobytes()).hexdigest()
