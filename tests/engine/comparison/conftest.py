"""A tiny data set with a known truth, and its comparison."""

from __future__ import annotations

import pytest

from qmcif_engine.comparison.datasets import find_dataset
from qmcif_engine.comparison.record import fingerprint_inputs, open_record
from qmcif_engine.comparison.report import Comparison
from qmcif_engine.comparison.runner import score_dataset
from tests.scenes import write_set


@pytest.fixture
def dataset(tmp_path):
    """Two pairs with a truth, in a folder of their own."""
    folder = tmp_path / "garden"
    folder.mkdir()
    write_set(folder, "01", seed=1)
    write_set(folder, "02", seed=2)
    return find_dataset(folder)


@pytest.fixture
def compare(tmp_path):
    """Score a data set into a report folder."""

    def run(dataset, *methods, published=None, n_processes=1, name="report", overwrite=False, progress=lambda done, total: None):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        record = open_record(folder, dataset, methods=methods, overwrite=overwrite)
        fingerprints = fingerprint_inputs(dataset, methods, progress=lambda done, total: None)
        scores = score_dataset(dataset, methods, record=record, fingerprints=fingerprints, n_processes=n_processes, progress=progress)
        request = {"command": "qmcif benchmark", "dataset": dataset, "methods": methods, "folder": folder, "published": published}
        return Comparison(**request, changes={"default": ""}, scores=scores)

    return run
