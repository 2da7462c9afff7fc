"""The activity of a patch is what quaternion singular bases make of it."""

from __future__ import annotations

import numpy as np

from qmcif_engine.comparison.rivals.quaternion_tensors import complex_form, measure_activity
from qmcif_engine.method import quaternion

RNG = np.random.default_rng(8)


def test_the_complex_form_multiplies_as_quaternions_do():
    first, second = RNG.normal(size=(2, 3, 4, 4))
    product = complex_form(first) @ complex_form(second)
    full = [np.concatenate([np.zeros((1, 4, 4)), each]) for each in (first, second)]
    real = quaternion.real_form(full[0]) @ quaternion.real_form(full[1])

    np.testing.assert_allclose(np.linalg.svd(product, compute_uv=False)[::2], np.linalg.svd(real, compute_uv=False)[::4])


def test_a_patch_alone_has_the_sum_of_its_singular_values():
    patch = RNG.normal(size=(1, 1, 3, 6, 6))
    singular = np.linalg.svd(complex_form(patch[0, 0]), compute_uv=False)

    np.testing.assert_allclose(measure_activity(patch), [[singular.sum() / 2]])


def test_activity_grows_with_the_contrast_of_a_patch_and_ignores_a_turn_of_hues():
    patch = RNG.uniform(size=(3, 8, 8))
    pair = np.stack([patch, 0.5 * patch])[:, None]
    turned = pair[:, :, [1, 2, 0]]
    strong, weak = measure_activity(pair)[:, 0]

    np.testing.assert_allclose(weak, strong / 2)
    np.testing.assert_allclose(measure_activity(turned), measure_activity(pair))
