"""What the engine is asked for, and how it is stopped."""

import dask.array as da
import numpy as np
import pytest
from napari.layers import Image
from qtpy.QtCore import QObject

from napari_qmcif import evaluating
from napari_qmcif.chosen_stack import choose_pictures
from napari_qmcif.evaluating import assemble_request, evaluate_layers
from napari_qmcif.worker import make_worker
from qmcif_engine import Cancelled, evaluate


@pytest.fixture
def layers(pictures):
    return [Image(picture, rgb=True, name=f"frame {number}") for number, picture in enumerate(pictures)]


def test_opacity_is_left_out_of_the_comparison(pictures, qapp):
    opaque = np.concatenate([pictures, np.full((*pictures.shape[:3], 1), 255, np.uint8)], axis=-1)
    layers = [Image(picture, rgb=True) for picture in opaque]
    owner = QObject()

    name, figures = evaluate_layers(
        assemble_request(choose_pictures(layers), result=layers[0], truth=None), job=make_worker(None, owner=owner)
    )

    assert name == layers[0].name
    assert figures["Q_Y"] == evaluate(list(pictures), pictures[0]).structural_similarity


def test_a_cancelled_job_ends_at_the_next_step(layers, qapp):
    owner = QObject()
    job = make_worker(None, owner=owner)
    job.cancel()

    with pytest.raises(Cancelled, match="the work was cancelled; nothing was returned: start it again"):
        evaluate_layers(assemble_request(choose_pictures(layers), result=layers[0], truth=None), job=job)


def test_integers_have_the_range_of_their_type_and_floats_that_of_the_layer(layers, pictures):
    floats = [Image(picture / 255.0, rgb=False, contrast_limits=(0.1, 0.9)) for picture in pictures[..., 0]]

    assert assemble_request(choose_pictures(layers), result=layers[0], truth=None).sample_range is None
    assert assemble_request(choose_pictures(floats), result=floats[0], truth=None).sample_range == (0.1, 0.9)


@pytest.mark.parametrize(("record", "is_noted"), [({}, False), ({"align": "none"}, False), ({"align": "affine"}, True)])
def test_a_result_of_aligned_images_is_not_compared_with_the_images_as_they_are_in_silence(layers, pictures, record, is_noted):
    result = Image(pictures[0], rgb=True, metadata={"qmcif": record})

    note = assemble_request(choose_pictures(layers), result=result, truth=None).note

    assert note.startswith("the images were aligned to make this result") == is_noted


def test_lazy_layers_reach_the_engine_as_they_are_and_have_the_same_figures(pictures, qapp, monkeypatch):
    seen = []
    monkeypatch.setattr(
        evaluating, "evaluate", lambda sources, fused, **options: seen.extend([*sources, fused]) or evaluate(sources, fused)
    )
    layers = [Image(da.from_array(picture, chunks=(20, 20, 3)), rgb=True) for picture in pictures]

    _, figures = evaluate_layers(
        assemble_request(choose_pictures(layers), result=layers[0], truth=None), job=make_worker(None, owner=QObject())
    )

    assert all(isinstance(image, da.Array) for image in seen)
    assert figures["Q_G"] == evaluate(list(pictures), pictures[0]).gradient
