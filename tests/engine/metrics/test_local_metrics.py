"""Q_MI, Q_G, Q_E, Q_Y and the figures against a truth agree with independent implementations and plain transcriptions."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy import signal
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from sklearn.metrics import normalized_mutual_info_score

from qmcif_engine.metrics import evaluate
from qmcif_engine.metrics.levels import convert_to_gray
from qmcif_engine.metrics.local_metrics import rate_direction, rate_strength
from qmcif_engine.metrics.truth import compare_colors

ROUNDING = 1e-9
EDGE_CONSTANT, CONSTANT = (1e-6 * 255) ** 2, 2e-16
SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])


@pytest.fixture(params=[((1, 1), 2), ((3, 5), 3), ((9, 30), 2), ((17, 13), 3)], ids=str)
def scene(request, paint_scene):
    """Textured, with flat and saturated areas where there is room."""
    shape, n_sources = request.param
    scene = paint_scene(shape, n_sources=n_sources)
    if shape[0] > 8:
        for image, level in zip(scene.images, (255, 255, 254, 40), strict=False):
            image[:9, :11] = level
        scene.sources[0][:8, :8] = 0
        scene.fused[:, 12:] = 77
    return scene


def rate_edges_plainly(source, fused):
    """The numerator and the denominator of Q_G, pixel by pixel."""
    slopes = [signal.correlate2d(image.astype(float), taps, mode="same") for image in (source, fused) for taps in (SOBEL, SOBEL.T)]
    numerator = denominator = 0.0
    for x, y, x_fused, y_fused in zip(*(slope.ravel() for slope in slopes), strict=True):
        strength, strength_fused = math.hypot(x, y), math.hypot(x_fused, y_fused)
        ratio = strength_fused / strength if strength > strength_fused else (strength or 1e-5) / (strength_fused or 1e-5)
        agreement = 1 - abs(math.atan(y / (x or 1e-5)) - math.atan(y_fused / (x_fused or 1e-5))) * 2 / math.pi
        rate = 0.9994 / (1 + math.exp(-15 * (ratio - 0.5))) * 0.9879 / (1 + math.exp(-22 * (agreement - 0.8)))
        numerator += rate * (strength or 1e-5)
        denominator += strength or 1e-5
    return numerator, denominator


def test_gradient_equals_the_plain_definition(scene):
    parts = [rate_edges_plainly(source, scene.fused) for source in scene.sources]
    expected = sum(numerator for numerator, _ in parts) / sum(denominator for _, denominator in parts)

    assert evaluate(*scene).gradient == pytest.approx(expected, abs=ROUNDING)


def test_strength_is_rated_by_the_ratio_of_the_weaker_to_the_stronger_and_direction_is_not_folded():
    rates = rate_strength(np.array([0.0, 4.0, 2.0, 0.0, 4.0]), np.array([0.0, 2.0, 4.0, 4.0, 0.0]))
    steep = np.array([1.57])

    assert rates[0] == pytest.approx(0.9994 / (1 + math.exp(-7.5)))
    assert rates[1] == rates[2] == pytest.approx(0.9994 / 2)
    assert rates[3] == pytest.approx(rates[4], abs=1e-4)
    assert rates[4] == pytest.approx(0.9994 / (1 + math.exp(7.5)))
    assert rate_direction(steep, -steep)[0] < 1e-15
    assert rate_direction(steep, steep)[0] == pytest.approx(0.9879 / (1 + math.exp(-4.4)))


def stretch(image):
    return np.floor((image - float(image.min())) / np.ptp(image) * 255 + 0.5).ravel()


def test_mutual_information_equals_scikit_learn_for_any_number_of_sources(paint_scene):
    sources, fused = paint_scene((40, 50), n_sources=3)
    fused = fused // 2 + 30
    scores = [normalized_mutual_info_score(stretch(source), stretch(fused)) for source in sources]

    assert evaluate(sources, fused).mutual_information == pytest.approx(2 * np.mean(scores), abs=ROUNDING)
    assert evaluate([fused, fused], 255 - fused).mutual_information == pytest.approx(2, abs=ROUNDING)
    assert evaluate(sources, np.full_like(fused, 9)).mutual_information == pytest.approx(0, abs=ROUNDING)


def iterate_windows(images, side):
    high, wide = (min(side, length) for length in images[0].shape)
    for y, x in np.ndindex(images[0].shape[0] - high + 1, images[0].shape[1] - wide + 1):
        yield [image[y : y + high, x : x + wide].astype(float) for image in images]


def compare_plainly(first, second, weights, constant):
    """Centered moments: a constant window has deviations of exactly zero."""
    means = [image.flat[0] if np.ptp(image) == 0 else np.sum(weights * image) for image in (first, second)]
    spreads = [np.sum(weights * (image - mean) ** 2) for image, mean in zip((first, second), means, strict=True)]
    covariance = np.sum(weights * (first - means[0]) * (second - means[1]))
    luminance = (2 * means[0] * means[1] + constant) / (means[0] ** 2 + means[1] ** 2 + constant)
    return luminance * (2 * covariance + constant) / (sum(spreads) + constant), spreads[0]


def weigh_plainly(images):
    """``Q_W`` of Q_E."""
    numerator = denominator = 0.0
    for *parts, target in iterate_windows(images, 8):
        similarities, variances = zip(*(compare_plainly(part, target, 1 / part.size, EDGE_CONSTANT) for part in parts), strict=True)
        weights = np.array(variances) if sum(variances) else np.full(len(parts), 1 / len(parts))
        numerator += weights.max() * np.dot(weights / weights.sum(), similarities)
        denominator += weights.max()
    return numerator / denominator


def find_edges_plainly(image):
    kernel = np.array([[1, 0, -1]] * 3)
    return np.hypot(*(signal.correlate2d(image.astype(int), taps, mode="same") for taps in (kernel, kernel.T)))


def test_edge_similarity_equals_the_plain_definition(scene):
    expected = weigh_plainly(scene.images) * weigh_plainly([find_edges_plainly(image) for image in scene.images])

    assert evaluate(*scene).edge_similarity == pytest.approx(expected, abs=ROUNDING)


def rate_plainly(images):
    """Q_Y."""
    rates = []
    for *parts, target in iterate_windows(images, 7):
        down, across = (np.exp(-((np.arange(length) - (length - 1) / 2) ** 2) / 4.5) for length in target.shape)
        weights = np.outer(down, across) / np.outer(down, across).sum()
        similarities, variances = zip(*(compare_plainly(part, target, weights, CONSTANT) for part in parts), strict=True)
        if min(compare_plainly(*pair, weights, CONSTANT)[0] for pair in combinations(parts, 2)) < 0.75:
            rates.append(max(similarities))
        else:
            rates.append(np.dot(variances, similarities) / sum(variances) if sum(variances) else np.mean(similarities))
    return np.mean(rates)


def test_structural_similarity_equals_the_plain_definition(scene):
    assert evaluate(*scene).structural_similarity == pytest.approx(rate_plainly(scene.images), abs=ROUNDING)


def test_three_sources_agree_only_if_every_pair_does(paint_scene):
    base = paint_scene((30, 30)).fused
    near, far = base // 2 + 60, 255 - base
    # `far` spoils the agreement of the other two, so that the best similarity counts instead of the mean
    assert evaluate([base, near], base).structural_similarity < 1
    assert evaluate([base, near, far], base).structural_similarity == pytest.approx(1, abs=ROUNDING)


@pytest.mark.parametrize("shape", [(40, 37, 3), (90, 31)])
def test_error_and_similarity_against_the_truth_equal_those_of_scikit_image(paint_scene, shape):
    sources, fused = paint_scene(shape)
    truth = sources[0]
    fused[[0, -1]] = 255 - truth[[0, -1]]
    gray = [convert_to_gray(image) if image.ndim == 3 else image for image in (fused, truth)]

    found = evaluate(sources, fused, truth=truth, border_px=3)

    assert found.signal_to_noise_db == pytest.approx(peak_signal_noise_ratio(truth, fused), abs=ROUNDING)
    expected = peak_signal_noise_ratio(truth[3:-3, 3:-3], fused[3:-3, 3:-3])
    assert found.inner_signal_to_noise_db == pytest.approx(expected, abs=ROUNDING)
    expected = structural_similarity(*gray, data_range=255, gaussian_weights=True, sigma=1.5, use_sample_covariance=False)
    assert found.truth_similarity == pytest.approx(expected, abs=ROUNDING)
    in_default = evaluate(sources, fused, truth=truth).inner_signal_to_noise_db
    assert in_default == pytest.approx(peak_signal_noise_ratio(truth[8:-8, 8:-8], fused[8:-8, 8:-8]), abs=ROUNDING)


@pytest.mark.parametrize(("shape", "border_px"), [((1, 1), 8), ((16, 40), 8), ((17, 40), 9)])
def test_border_that_leaves_nothing_is_not_left_out(paint_scene, shape, border_px):
    sources, fused = paint_scene(shape)
    found = evaluate(sources, fused, truth=sources[0], border_px=border_px)

    assert found.inner_signal_to_noise_db == found.signal_to_noise_db


def test_equal_images_have_a_finite_ratio_above_all_others():
    truth = np.full((10, 12, 3), 100, np.uint8)
    nearly = truth.copy()
    nearly[3, 4, 1] += 1
    nearest, equal = (evaluate([truth, truth], fused, truth=truth).signal_to_noise_db for fused in (nearly, truth))

    assert nearest == pytest.approx(10 * math.log10(255**2 * 360), abs=ROUNDING)
    assert equal == pytest.approx(10 * math.log10(255**2 * 360 * 4), abs=ROUNDING)


def multiply_quaternions(p, q):
    """Hamilton's product of two sequences of four."""
    a, b, c, d = p
    e, f, g, h = q
    return np.array(
        [a * e - b * f - c * g - d * h, a * f + b * e + c * h - d * g, a * g - b * h + c * e + d * f, a * h + b * g - c * f + d * e]
    )


def conjugate(p):
    return np.array([p[0], -p[1], -p[2], -p[3]])


def compare_colors_plainly(first, second):
    """Definition 5 on one 11 x 11 window of colors, quaternion by quaternion."""
    taps = np.exp(-((np.arange(11) - 5) ** 2) / 4.5)
    weights = (np.outer(taps, taps) / taps.sum() ** 2).ravel()
    one, two = (np.vstack([np.zeros(121), image.reshape(121, 3).T]) for image in (first, second))
    means = [(weights * image).sum(axis=1) for image in (one, two)]
    covariance, spread = np.zeros(4), 0.0
    for pixel in range(121):
        deviations = [image[:, pixel] - mean for image, mean in zip((one, two), means, strict=True)]
        covariance += weights[pixel] * multiply_quaternions(conjugate(deviations[0]), deviations[1])
        spread += weights[pixel] * sum(np.sum(deviation**2) for deviation in deviations)
    real = np.array([1.0, 0, 0, 0])
    constants = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    a = 2 * multiply_quaternions(conjugate(means[0]), means[1]) + constants[0] * real
    b = 2 * covariance + constants[1] * real
    product = multiply_quaternions(conjugate(a / (sum(np.sum(mean**2) for mean in means) + constants[0])), b / (spread + constants[1]))
    return np.linalg.norm(product)


def test_quaternion_similarity_equals_definition_five_window_by_window(paint_scene):
    sources, fused = paint_scene((13, 14, 3))
    truth = sources[0]
    expected = [[compare_colors_plainly(fused[y : y + 11, x : x + 11], truth[y : y + 11, x : x + 11]) for x in range(4)] for y in range(3)]

    found = compare_colors(*(np.moveaxis(image, 2, 0).astype(float) for image in (fused, truth)))

    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)
    assert evaluate(sources, fused, truth=truth).truth_quaternion_similarity == pytest.approx(np.mean(expected), abs=ROUNDING)


def test_modulus_is_blind_to_inverted_contrast_as_documented():
    wave = np.rint(100 * np.sin(np.arange(40) * 1.3))
    image = np.broadcast_to(128 + wave, (40, 40)).astype(np.uint8)
    found = evaluate([image, image], image, truth=(256 - image.astype(int)).astype(np.uint8))

    assert found.truth_quaternion_similarity > 0.95
    assert found.truth_similarity < -0.9
