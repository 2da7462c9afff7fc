"""Noise of samples in their own unit: of any type, scale and offset."""

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.decision.statistics import ROUNDING
from qmcif_engine.tiles.companions import measure_sample_noise

SIGMA = 6.0


def noisy(shape=(96, 96)):
    return np.rint(100 + SIGMA * np.random.default_rng(0).normal(size=shape))


@pytest.mark.parametrize(
    ("dtype", "scale", "offset"),
    [
        ("uint8", 1, 0),
        ("int16", 1, -30000),
        ("uint32", 1, 4294967000),
        ("float32", 1e30, 0),
        ("float32", 1e-30, 0),
        ("float64", 1e100, 0),
        ("float64", 1, 1e10),
    ],
)
def test_noise_follows_the_scale_of_the_samples_and_no_offset(dtype, scale, offset):
    samples = [(scale * noisy() + offset).astype(dtype)]

    assert measure_sample_noise(samples, FusionConfig()) == pytest.approx(scale * measure_sample_noise([noisy()], FusionConfig()), rel=0.01)


def test_one_channel_is_measured_by_itself():
    samples = [np.stack([noisy(), np.full((96, 96), 7.0)], axis=-1)]

    quiet, loud = (measure_sample_noise(samples, FusionConfig(), channel=channel) for channel in (1, 0))

    assert quiet == 0
    assert loud == pytest.approx(SIGMA, rel=0.2)


def test_without_noise_handling_rounding_is_all():
    config = FusionConfig().replaced({"noise": "off"})

    assert measure_sample_noise([noisy().astype(np.uint8)], config) == ROUNDING
    assert measure_sample_noise([noisy()], config) == 0
