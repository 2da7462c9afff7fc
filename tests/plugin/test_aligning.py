"""Layers reach the engine as a stack that is aligned and evened out once."""

import re
from dataclasses import replace

import numpy as np
import pytest
from napari.layers import Image

from napari_qmcif import aligning
from napari_qmcif.aligning import align_images, hint_at_preparation
from napari_qmcif.chosen_stack import choose_planes
from qmcif_engine import Cancelled, QmcifError, Window, make_focus_stack, prepare_stack


@pytest.fixture
def layer():
    scene = make_focus_stack(n_images=2, shape=(200, 240), seed=3).images
    return Image(np.stack([scene[0], np.roll(scene[1], 5, axis=1)]), rgb=True)


def choose(layer, align="none"):
    return replace(choose_planes(layer, 0, point=(0, 0, 0)), align=align)


def test_a_stack_that_visibly_moved_gets_advice(layer, job):
    assert hint_at_preparation(choose(layer), job=job) == "neighboring images look misaligned by about 5 px: set Align to translation"


def test_a_stack_that_is_aligned_anyway_or_did_not_move_gets_none(layer, job):
    still = Image(make_focus_stack(n_images=2, shape=(200, 240), seed=3).images, rgb=True)

    assert hint_at_preparation(choose(layer, "affine"), job=job) == ""
    assert hint_at_preparation(choose(still), job=job) == ""


@pytest.fixture
def uneven():
    """Four images that become darker, blue the most."""
    scene = 60 + 0.7 * make_focus_stack(n_images=4, shape=(120, 160), seed=3).images
    drift = np.linspace(1, [0.95, 0.9, 0.8], 4)[:, None, None]
    return Image((scene * drift).astype(np.uint8), rgb=True)


def test_a_stack_of_uneven_brightness_gets_advice_unless_it_is_evened_out_anyway(uneven, job):
    hint = hint_at_preparation(choose(uneven), job=job)

    assert re.fullmatch(r"the images differ in brightness or color by about \d+ %: set Even exposure", hint)
    assert hint_at_preparation(replace(choose(uneven), even_exposure=True), job=job) == ""


def test_a_failing_judgment_is_no_advice(uneven, job, monkeypatch):
    def refuse(stack):
        msg = "damaged"
        raise QmcifError(msg)

    monkeypatch.setattr(aligning, "suggest_even_exposure", refuse)

    assert hint_at_preparation(choose(uneven), job=job) == ""


def test_brightness_is_compared_once_and_evened_out(uneven, job, monkeypatch):
    stack = replace(choose(uneven), even_exposure=True)
    calls = []

    def count(*arguments, **options):
        calls.append(options)
        return prepare_stack(*arguments, **options)

    monkeypatch.setattr(aligning, "prepare_stack", count)
    first, second = (align_images(stack.cut_images(), stack, job=job) for _ in range(2))

    assert [options.get("even_exposure", False) for options in calls] == [True, False, False]
    assert first.correction == second.correction
    assert first.correction.gains[3][2] > first.correction.gains[3][0] > 1


def test_looking_at_the_images_is_told_and_can_be_cancelled_between_two_windows(layer, job):
    stack = choose(layer)
    watched = aligning.open_images(stack.cut_images(), n_channels=3, job=job)
    job.cancel()

    with pytest.raises(Cancelled):
        watched.read(0, Window(0, 0, 8, 8))
    with pytest.raises(Cancelled):
        hint_at_preparation(stack, job=job)
    assert job.notes == ["looking whether the images moved", "looking whether the images are equally bright"]


def test_images_that_are_not_to_be_aligned_are_only_opened(layer, job):
    stack = choose(layer)

    assert align_images(stack.cut_images(), stack, job=job).transforms is None


def test_what_moved_is_estimated_once_until_the_images_change(layer, job, monkeypatch):
    estimated = []

    def prepare(opened, **arguments):
        if "align" in arguments:
            estimated.append(arguments["align"])
        return prepare_stack(opened, **arguments)

    monkeypatch.setattr(aligning, "prepare_stack", prepare)
    for align in ("translation", "translation", "similarity", "translation"):
        stack = choose(layer, align)
        align_images(stack.cut_images(), stack, job=job)
    assert estimated == ["translation", "similarity"]
    assert job.notes == ["aligning 2 images"] * 2

    layer.data = layer.data.copy()
    stack = choose(layer, "translation")
    align_images(stack.cut_images(), stack, job=job)
    assert estimated == ["translation", "similarity", "translation"]


def test_aligning_can_be_cancelled(layer, job):
    stack = choose(layer, "translation")
    job.cancel()

    with pytest.raises(Cancelled, match="the work was cancelled"):
        align_images(stack.cut_images(), stack, job=job)


def test_the_widget_offers_every_model_of_the_engine():
    from qmcif_engine.stack.alignment.transforms import TransformModel

    assert tuple(TransformModel) == aligning.ALIGNMENTS
