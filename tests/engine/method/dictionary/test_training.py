import sys

import numpy as np
import pytest

from qmcif_engine.errors import InvalidImageError, MissingExtraError
from qmcif_engine.method.dictionary.training import SMALLEST_CONTRAST, load_training_images, sample_patches


@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 256, (2, 20, 30, 3), dtype=np.uint8)


def draw(pictures, *, n_patches=12, seed=1):
    return sample_patches(pictures, patch_px=4, n_patches=n_patches, generator=np.random.default_rng(seed))


def test_patches_are_pure_quaternions_cut_from_the_pictures_in_row_major_order(noise):
    patches = draw(noise)
    assert patches.shape == (4, 16, 12)
    assert patches.dtype == np.float64
    assert not patches[0].any()
    windows = np.lib.stride_tricks.sliding_window_view(noise, (4, 4), axis=(1, 2))
    for index in range(12):
        source = windows[index // 6].reshape(-1, 3, 16)
        assert np.any(np.all(source == patches[1:, :, index], axis=(1, 2)))


def test_same_seed_draws_the_same_patches_and_another_seed_others(noise):
    np.testing.assert_array_equal(draw(noise), draw(noise))
    assert np.any(draw(noise) != draw(noise, seed=2))


def test_no_patch_is_drawn_twice(noise):
    n_positions = 2 * 17 * 27
    patches = draw(noise, n_patches=n_positions)
    assert np.unique(patches.reshape(64, -1), axis=1).shape[1] == n_positions


def test_flat_patches_are_left_out(noise):
    picture = noise[0].copy()
    picture[:, :20] = 128
    picture[::2, :20] += 3
    patches = draw([picture])
    deviation = patches - patches.mean(axis=1, keepdims=True)
    contrast = np.sqrt((deviation**2).sum(axis=0).mean(axis=0))
    assert contrast.min() >= SMALLEST_CONTRAST


def test_too_few_textured_patches_are_refused(noise):
    flat = np.full((20, 30, 3), 77, np.uint8)
    with pytest.raises(InvalidImageError, match="0 textured patches, 6 are needed: ask for fewer"):
        draw([noise[0], flat])


def test_training_pictures_are_color(pictures):
    assert len(pictures) == 3
    for picture in pictures:
        assert picture.dtype == np.uint8
        assert picture.shape[2] == 3


def test_training_pictures_lie_inside_the_scikit_image_wheel(pictures):
    from importlib.metadata import files

    shipped = {path.name for path in files("scikit-image")}
    assert {"astronaut.png", "chelsea.png", "coffee.png"} <= shipped


def test_missing_scikit_image_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "skimage", None)
    with pytest.raises(MissingExtraError, match=r"needs scikit-image, .* pip install 'napari-qmcif\[dictionary\]'"):
        load_training_images()
