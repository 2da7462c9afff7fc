"""What must not change the result: copies, order, gray as color, bit depth, range of floats, another run."""

import hashlib
import itertools
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


def painted(shape=SHAPE, *, seed=0, contrast=0.15):
    """A color texture on the 0-1 scale, sharp to about a pixel."""
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).normal(size=(*shape, 3)), (0.8, 0.8, 0))
    return np.clip(0.5 + contrast * noise / noise.std(), 0, 1)


def depth_map(n_depths, shape=SHAPE):
    """Rings around a point: decision edges in every direction."""
    rows, columns = np.indices(shape)
    distance = np.hypot(rows - 35, columns - 40)
    return np.minimum(distance // 24, n_depths - 1).astype(np.intp)


def focus_stack(n_images, *, seed=0, contrast=0.15):
    """Images on the 0-1 scale, each sharp at one depth."""
    sharp, depth = painted(seed=seed, contrast=contrast), depth_map(n_images)
    blurred = ndimage.gaussian_filter(sharp, (2, 2, 0))
    return [np.where((depth == number)[..., None], sharp, blurred) for number in range(n_images)]


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


# --- copies ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_images", [2, 3])
@pytest.mark.parametrize("is_gray", [False, True])
def test_identical_images_return_the_image_exactly(dtype, n_images, is_gray):
    image = stored([painted((33, 41))], dtype)[0]
    image = image[..., 0] if is_gray else image

    result = fuse([image.copy() for _ in range(n_images)])

    assert result.fused.dtype == image.dtype
    assert result.fused.tobytes() == image.tobytes()


def test_identical_images_return_the_image_with_the_published_method_too():
    image = stored([painted((24, 25))], "uint16")[0]

    assert fuse([image, image.copy()], PRESETS["paper"]).fused.tobytes() == image.tobytes()


@pytest.mark.parametrize("copied", [0, 1])
def test_a_copy_among_the_images_does_not_make_its_sharp_parts_undecided(copied):
    images, depth = stored(focus_stack(2), "uint8"), depth_map(2)

    result = fuse([*images, images[copied]])

    came_from = np.array([0, 1, copied])[result.source_index]
    is_far = ndimage.maximum_filter(depth, 17) == ndimage.minimum_filter(depth, 17)
    assert np.mean(came_from[is_far] == depth[is_far]) >= 0.99


# --- order ---


@pytest.mark.parametrize("dtype", DTYPES)
def test_exchanging_two_images_exchanges_the_index_and_leaves_the_picture(dtype):
    first, second = stored(focus_stack(2), dtype)

    result, exchanged = fuse([first, second]), fuse([second, first])

    np.testing.assert_array_equal(exchanged.source_index, 1 - result.source_index)
    np.testing.assert_array_equal(exchanged.confidence, result.confidence)
    one_level = 1 if np.dtype(dtype).kind == "u" else 4 * np.finfo(dtype).eps
    difference = np.abs(exchanged.fused.astype(np.float64) - result.fused.astype(np.float64))
    assert difference.max() <= one_level


@pytest.mark.parametrize("changes", [{}, {"is_low_rank": True, "iterations": 2}, {"result": "base"}, {"similarity": "modulus"}], ids=str)
def test_a_permutation_of_three_images_without_an_order_permutes_the_index_and_leaves_the_picture(changes):
    images, config = stored(focus_stack(3), "uint8"), FusionConfig().replaced({"order": "none", **changes})
    result = fuse(images, config)
    assert set(np.unique(result.source_index)) == {0, 1, 2}

    for order in itertools.islice(itertools.permutations(range(3)), 1, None, 2):
        permuted = fuse([images[number] for number in order], config)
        # three images can have equal numbers of votes at a few pixels
        is_alike = np.array(order)[permuted.source_index] == result.source_index
        assert is_alike.mean() >= SAME_DECISIONS
        assert np.abs(permuted.fused[is_alike].astype(int) - result.fused[is_alike]).max() <= 1
        assert permuted.focus_range == result.focus_range


@pytest.mark.parametrize("sigma", [0.0, 0.06])
@pytest.mark.parametrize("n_images", [3, 4])
def test_reversing_an_ordered_stack_reverses_the_index_and_leaves_the_picture(n_images, sigma):
    noise = np.random.default_rng(3).normal(0, sigma, (n_images, *SHAPE, 3))
    images = stored(np.clip(focus_stack(n_images) + noise, 0, 1), "uint8")

    result, reversed_ = fuse(images), fuse(images[::-1])

    assert len(np.unique(result.source_index)) >= 3
    is_alike = n_images - 1 - reversed_.source_index == result.source_index
    assert is_alike.mean() >= SAME_DECISIONS
    assert np.abs(reversed_.fused[is_alike].astype(int) - result.fused[is_alike]).max() <= 1
    assert np.mean(np.isclose(reversed_.confidence, result.confidence, atol=1e-3)) >= SAME_DECISIONS


# --- samples ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n_images", "sigma"), [(2, 0.0), (3, 0.0), (3, 0.05), (4, 0.2)])
def test_every_fused_sample_lies_between_the_least_and_the_largest_of_the_images(dtype, n_images, sigma):
    noise = np.random.default_rng(n_images).normal(0, sigma, (n_images, *SHAPE, 3))
    images = np.array(stored(np.clip(focus_stack(n_images, seed=n_images) + noise, 0, 1), dtype))

    fused = fuse(list(images)).fused

    rounding = 0 if np.dtype(dtype).kind == "u" else 4 * np.finfo(dtype).eps
    assert (fused >= images.min(axis=0) - rounding).all()
    assert (fused <= images.max(axis=0) + rounding).all()


# --- gray ---


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_images", [2, 3])
def test_gray_equals_color_with_equal_channels(dtype, n_images):
    gray = [image[..., 1] for image in stored(focus_stack(n_images), dtype)]
    color = [np.repeat(image[..., None], 3, axis=-1) for image in gray]

    of_gray, of_color = fuse(gray), fuse(color)

    assert of_gray.focus_range == of_color.focus_range
    np.testing.assert_array_equal(of_gray.source_index, of_color.source_index)
    for channel in range(3):
        np.testing.assert_array_equal(of_color.fused[..., channel], of_gray.fused)
    # means over one plane and over three equal ones differ in the last bit
    np.testing.assert_allclose(of_gray.confidence, of_color.confidence, rtol=0, atol=16 * np.finfo(np.float32).eps)


# --- bit depth ---


@pytest.mark.parametrize("bits", [10, 12, 14])
@pytest.mark.parametrize("contrast", [0.15, 0.05])
def test_narrow_data_in_16_bits_are_decided_as_if_they_filled_the_type(bits, contrast):
    narrow = [image >> (16 - bits) for image in stored(focus_stack(2, contrast=contrast), "uint16")]
    full = [image << (16 - bits) for image in narrow]

    of_narrow, of_full = fuse(narrow), fuse(full)

    assert share_alike(of_narrow, of_full) >= SAME_DECISIONS
    assert share_alike(of_narrow, fuse(stored(focus_stack(2, contrast=contrast), "uint16"))) >= SAME_DECISIONS
    assert of_narrow.fused.max() < 2**bits


def test_16_bit_detail_is_kept():
    images = stored(focus_stack(2), "uint16")

    result = fuse(images)

    low_bytes = np.unique(result.fused & 0xFF)
    assert len(low_bytes) == 256
    taken = np.where(result.source_index[..., None] == 0, *images)
    is_member = (result.fused == images[0]) | (result.fused == images[1])
    assert (result.fused == taken).mean() > 0.5
    assert is_member.mean() > 0.5
    # whatever was blended lies between its sources
    assert ((result.fused >= np.minimum(*images)) & (result.fused <= np.maximum(*images))).all()


def test_samples_away_from_decision_edges_are_members_of_their_source():
    images = stored(focus_stack(2), "uint16")

    result = fuse(images)

    is_inside = ndimage.maximum_filter(result.source_index, 17) == ndimage.minimum_filter(result.source_index, 17)
    taken = np.where(result.source_index[..., None] == 0, *images)
    assert is_inside.mean() > 0.3
    np.testing.assert_array_equal(result.fused[is_inside], taken[is_inside])


def test_detail_in_the_low_byte_alone_is_seen_and_kept():
    depth = depth_map(2)
    images = [(30_000 + np.rint(180 * image)).astype(np.uint16) for image in focus_stack(2)]

    result = fuse(images)

    assert len(np.unique(result.fused)) > 100
    assert share_alike(result, fuse(stored(focus_stack(2), "uint16"))) >= SAME_DECISIONS
    assert np.mean(result.source_index == depth) > 0.97


# --- floats ---


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("scale", "offset"), [(2, -1), (1e-6, 0), (1e6, 0), (1e6, -5e5), (-1, 0), (1, 1000), (1e-30, 0), (1e30, 0)])
def test_floats_of_any_range_are_decided_alike(dtype, scale, offset):
    unit = focus_stack(2)
    moved = [(scale * image + offset).astype(dtype) for image in unit]

    result = fuse(moved)

    assert share_alike(result, fuse(stored(unit, "float64"))) >= SAME_DECISIONS
    assert result.fused.dtype == dtype
    low, high = np.minimum(*moved), np.maximum(*moved)
    rounding = 4 * np.finfo(dtype).eps * np.abs(moved).max()
    assert (result.fused >= low - rounding).all()
    assert (result.fused <= high + rounding).all()


def test_double_precision_samples_on_a_large_offset_keep_their_detail():
    unit = focus_stack(2)

    result = fuse([1e9 + image for image in unit])

    assert share_alike(result, fuse(unit)) >= SAME_DECISIONS


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_type_of_the_samples_does_not_change_decisions(dtype):
    unit = focus_stack(2)

    assert share_alike(fuse(stored(unit, dtype)), fuse(unit)) >= SAME_DECISIONS


# --- storage and repetition ---


def test_memory_layout_does_not_change_a_byte():
    images = stored(focus_stack(2), "uint8")
    expected = fuse(images, with_maps=True)

    assert_same_bytes(fuse([np.asfortranarray(image) for image in images], with_maps=True), expected)
    assert_same_bytes(fuse([np.repeat(image, 2, axis=1)[:, ::2] for image in images], with_maps=True), expected)


def test_byte_order_does_not_change_decisions():
    images = stored(focus_stack(2), "uint16")
    expected = fuse(images, with_maps=True)

    result = fuse([image.astype(image.dtype.newbyteorder(">")) for image in images], with_maps=True)

    np.testing.assert_array_equal(result.source_index, expected.source_index)
    np.testing.assert_array_equal(result.fused, expected.fused)


@pytest.mark.parametrize("changes", [{}, {"is_low_rank": True, "iterations": 3}], ids=str)
def test_two_runs_give_the_same_bytes(changes):
    images, config = stored(focus_stack(2), "uint8"), FusionConfig().replaced(changes)

    assert_same_bytes(fuse(images, config, with_maps=True), fuse(images, config, with_maps=True))


@pytest.mark.parametrize("changes", [{}, {"is_low_rank": True, "iterations": 2}], ids=str)
def test_two_threads_at_once_give_the_same_bytes_as_one_after_the_other(changes):
    stacks = [stored(focus_stack(2, seed=seed), "uint8") for seed in (0, 1)]
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
    images = stored(focus_stack(2), "uint8")
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

    here = fuse(images, FusionConfig().replaced({"is_low_rank": True, "iterations": 2}))
    assert elsewhere == hashlib.sha256(here.fused.tobytes() + here.confidence.tobytes()).hexdigest()
