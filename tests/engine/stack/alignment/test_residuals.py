import numpy as np
import pytest
from scipy import ndimage

from qmcif_engine.stack.alignment.residuals import correlate_phases, residual_shifts
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.alignment.warping import AlignedStack
from qmcif_engine.stack.stack import ArrayStack


def make_texture(shape=(256, 300), seed=1):
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal(shape), 1.2)
    return (128 + 40 * noise / noise.std()).astype(np.float32)


@pytest.mark.parametrize("shift", [(0.0, 0.0), (3.0, -5.0), (-2.4, 1.7)])
def test_shifts_are_measured_to_a_fraction_of_a_pixel(shift):
    texture = make_texture()
    moved = ndimage.shift(texture, shift[::-1], order=5, mode="wrap")

    found = residual_shifts(ArrayStack([texture, moved]))

    assert len(found.first) > 100
    assert set(found.first) == {0}
    np.testing.assert_allclose(np.median(found.shift, axis=0), shift, atol=0.05)
    np.testing.assert_allclose(np.median(found.length_px), np.hypot(*shift), atol=0.08)


def test_flat_and_unrelated_windows_are_not_measured():
    texture = make_texture()
    flat = np.full_like(texture, 50)

    assert len(residual_shifts(ArrayStack([texture, flat])).first) == 0
    assert len(residual_shifts(ArrayStack([texture, make_texture(seed=2)])).first) == 0


def test_windows_outside_an_aligned_image_are_not_measured():
    texture = make_texture()
    away = ((1.0, 0.0, 150.0), (0.0, 1.0, 0.0), IDENTITY[2])
    transforms = Transforms(matrices=(IDENTITY, away), model=TransformModel.TRANSLATION, image_shape=texture.shape, reference=0)
    stack = AlignedStack(ArrayStack([texture, np.roll(texture, 150, axis=1)]), transforms)

    found = residual_shifts(stack)

    assert found.position[:, 0].max() <= 150 - 64 + 1
    np.testing.assert_allclose(found.shift, 0, atol=1e-6)


def test_windows_of_zeros_have_no_peak():
    assert correlate_phases(np.zeros((16, 16)), np.zeros((16, 16))) is None
