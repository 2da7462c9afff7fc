"""The default setting stays above the floors it was accepted with, on the shared data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qmcif_engine import evaluate, fuse, read_image
from qmcif_engine.comparison.datasets import find_dataset

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"
BORDER_PX = 8
FLOORS = {
    "lytro": {"Q_MI": 1.159, "Q_G": 0.7512, "Q_P": 0.8525, "Q_E": 0.865, "Q_Y": 0.988, "Q_CB": 0.808},
    "mffw": {"Q_MI": 1.098, "Q_G": 0.744, "Q_P": 0.765, "Q_E": 0.825, "Q_Y": 0.959, "Q_CB": 0.741},
}
PSNR_FLOORS_DB = {"mfi_whu": (42.1, 45.9), "nyu_d": (52.7, 52.7)}
"""Over the whole image, and without a border of `BORDER_PX`."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.shared,
    pytest.mark.skipif(not SHARED_DATA.exists(), reason="the shared pictures are not beside this checkout"),
]


@pytest.mark.parametrize("name", FLOORS)
def test_the_six_metrics_stay_above_their_floors(name: str) -> None:
    scores = []
    for pair in find_dataset(SHARED_DATA / name).sets:
        sources = [read_image(path).samples for path in pair.sources]
        scores.append(evaluate(sources, fuse(sources).fused).list_by_symbol())

    means = {symbol: float(np.mean([score[symbol] for score in scores])) for symbol in FLOORS[name]}
    assert {symbol: mean for symbol, mean in means.items() if mean < FLOORS[name][symbol]} == {}


@pytest.mark.parametrize("name", PSNR_FLOORS_DB)
def test_the_distance_to_the_truth_stays_above_its_floor(name: str) -> None:
    whole, inner = [], []
    for pair in find_dataset(SHARED_DATA / name).sets:
        assert pair.truth is not None
        fused = fuse([read_image(path).samples for path in pair.sources]).fused
        error = read_image(pair.truth).samples.astype(np.float64) - fused
        whole.append(10 * np.log10(255**2 / np.mean(error**2)))
        inner.append(10 * np.log10(255**2 / np.mean(error[BORDER_PX:-BORDER_PX, BORDER_PX:-BORDER_PX] ** 2)))

    assert np.mean(whole) >= PSNR_FLOORS_DB[name][0]
    assert np.mean(inner) >= PSNR_FLOORS_DB[name][1]
