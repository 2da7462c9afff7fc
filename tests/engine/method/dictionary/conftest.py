"""Small quaternion matrices and real patches for the tests of dictionary learning."""

import numpy as np
import pytest

from qmcif_engine.method.dictionary.training import load_training_images, sample_patches

TRAINING, HELD_OUT = 11, 12
"""Seeds of two draws of patches; that the second is held out is seen to by a fixture."""


@pytest.fixture(scope="session")
def pictures():
    pytest.importorskip("skimage")
    return load_training_images()


@pytest.fixture(scope="session")
def training_patches(pictures):
    left_halves = [picture[:, : picture.shape[1] // 2] for picture in pictures]
    return sample_patches(left_halves, patch_px=5, n_patches=3000, generator=np.random.default_rng(TRAINING))


@pytest.fixture(scope="session")
def held_out_patches(pictures):
    right_halves = [picture[:, picture.shape[1] // 2 :] for picture in pictures]
    return sample_patches(right_halves, patch_px=5, n_patches=1500, generator=np.random.default_rng(HELD_OUT))
