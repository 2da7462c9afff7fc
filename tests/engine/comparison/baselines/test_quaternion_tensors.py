"""The activity of a patch is what quaternion singular bases make of it."""

from __future__ import annotations

import numpy as np

from qmcif_engine.comparison.baselines.quaternion_tensors import STEEPNESS, complex_form, fuse_planes, measure_activity, weigh
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


def test_weights_are_a_sigmoid_function_of_the_logarithm_of_the_ratio_of_activities():
    activity = np.array([[3.0, 1.0, 0.0, 0.0, 1e-200], [2.0, 1.0, 4.0, 0.0, 2e-200]])
    weights = weigh(activity)
    expected = 1 / (1 + np.exp(-STEEPNESS * np.log(3 / 2)))

    np.testing.assert_allclose(weights[0], [expected, 0.5, 0.0, 0.5, 1 / (1 + 2**STEEPNESS)])
    np.testing.assert_allclose(weights.sum(axis=0), 1)


def test_brightness_does_not_speak_for_a_patch():
    texture = RNG.uniform(0.1, 0.2, size=(1, 3, 16, 16))
    flat = np.full_like(texture, 0.9)

    np.testing.assert_allclose(fuse_planes(np.concatenate([texture, flat]), lambda: None), texture[0], atol=1e-12)
