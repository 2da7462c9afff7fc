"""The record holds what one needs to make a result again, in plain values."""

import json

import numpy as np
from napari.layers import Image

import qmcif_engine
from napari_qmcif.layers_in import choose_layers, choose_planes
from napari_qmcif.layers_out import record_provenance
from qmcif_engine import FusionConfig


def test_record_of_a_stack_names_version_settings_input_axis_and_range():
    layer = Image(np.zeros((2, 3, 4, 5), np.uint8), name="cells", axis_labels=("t", "z", "y", "x"))
    config = FusionConfig().replaced({"iterations": 3})

    record = record_provenance(choose_planes(layer, 1, point=(1, 0, 0, 0)), config, focus_range=(2.0, 250.0))

    assert record["version"] == qmcif_engine.__version__
    assert FusionConfig.from_dict(record["settings"]) == config
    assert [(entry["layer"], entry["path"]) for entry in record["inputs"]] == [("cells", None)]
    assert (record["n_images"], record["axis"], record["position"]) == (3, "z", {"t": 1})
    assert record["focus_range"] == [2.0, 250.0]


def test_record_is_plain_enough_for_json():
    layers = [Image(np.zeros((4, 5), np.uint8), name=name) for name in "ab"]

    record = record_provenance(choose_layers(layers), FusionConfig(), focus_range=(np.float64(0), np.float64(1)))

    assert json.loads(json.dumps(record)) == record
    assert (record["axis"], record["position"]) == (None, {})
