"""Stacks and their views: whatever shows a stack keeps one contract, and keeps what it does not change."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from qmcif_engine import make_focus_stack, open_stack, write_image
from qmcif_engine.errors import Cancelled, InvalidImageError
from qmcif_engine.io.output.windowed_image import StackImage
from qmcif_engine.pipeline.results import stack_slabs
from qmcif_engine.stack import stack as stack_module
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.alignment.warping import align_stack
from qmcif_engine.stack.deciding import choose_deciding_channels, choose_focus_range, join_guide
from qmcif_engine.stack.exposure import ExposureCorrection, correct_stack
from qmcif_engine.stack.image_metadata import ImageMetadata
from qmcif_engine.stack.previews import ReducedImage, read_previews
from qmcif_engine.stack.samples import check_number
from qmcif_engine.stack.stack import (
    N_SAMPLED_PLACES,
    Stack,
    number_images,
    sample_stack,
    stack_arrays,
)
from qmcif_engine.stack.window import Window
from tests.scenes import lacking_stack, logged_stack

SHAPE = (30, 20, 3)
RIGHT_DOWN = ((1, 0, 1), (0, 1, 2), (0, 0, 1))


def make_images(n_images=3, shape=SHAPE):
    return list(np.random.default_rng(1).integers(0, 120, (n_images, *shape), dtype=np.uint8))


def move(second):
    return Transforms(matrices=(IDENTITY, second, IDENTITY), model=TransformModel.AFFINE, image_shape=SHAPE[:2], reference=0)


def brighten(gain):
    return ExposureCorrection(gains=((1.0,) * 3, (gain,) * 3, (1.0,) * 3), offsets=((0.0,) * 3,) * 3, reference=0)


def full_stack():
    """A stack with everything that a stack may have; image n lacks the first n columns."""
    images = make_images()
    return lacking_stack(
        images,
        (0, 1, 2),
        metadata=ImageMetadata(z_step=2.0),
        alpha=stack_arrays([image[..., 0] // 2 for image in images]),
        companions=stack_arrays([121 - image for image in images]),
        deciding_channels=(0, 1, 2),
        n_separate_channels=3,
        sources=(Path("a.tif"),),
        frame_numbers=(5, 6, 7),
        scratch_bytes=77,
        whole_bytes=88,
    )


VIEWS = {
    "stack": lambda stack: stack,
    "each channel": lambda stack: stack.replaced(decides_each=True),
    "chosen": lambda stack: stack.choose(range(1, 3)),
    "cut": lambda stack: stack.cut(Window(3, 2, 27, 19)),
    "watched": lambda stack: stack.watched(lambda: None),
    "aligned": lambda stack: align_stack(stack, move(RIGHT_DOWN)),
    "corrected": lambda stack: correct_stack(stack, brighten(2.0)),
    "guided": lambda stack: join_guide(stack, lacking_stack(make_images(), (3, 0, 0))),
    "slabs": lambda stack: stack_slabs(
        stack, [range(2), range(1, 3), range(2, 3)], *([StackImage(plane, n) for n in range(3)] for plane in (stack, stack.companions))
    ),
    "previewed": lambda stack: read_previews(stack, [ReducedImage(1, 4)]),
    "opened": lambda _: open_stack(np.stack(make_images())),
    "in memory": lambda _: stack_arrays(make_images()),
}


@pytest.mark.parametrize("show", VIEWS.values(), ids=VIEWS)
def test_every_view_keeps_the_contract(show):
    view = show(full_stack())
    copy = pickle.loads(pickle.dumps(view))  # as a cluster does
    whole, window = Window.whole(view.image_shape), Window(2, 3, 9, 15)

    assert isinstance(view, Stack)
    assert view.n_images == len(view.names) == copy.n_images
    for number in range(view.n_images):
        samples, is_valid = view.read(number, whole), view.valid(number, whole)
        assert (samples.shape, samples.dtype, is_valid.shape) == (view.image_shape, view.dtype, whole.shape)
        assert view.has_validity or is_valid.all()
        for same in (view, copy):
            np.testing.assert_array_equal(same.read(number, window), samples[window.slices])
            np.testing.assert_array_equal(same.valid(number, window), is_valid[window.slices])
        for plane, again in ((view.alpha, copy.alpha), (view.companions, copy.companions)):
            if plane is not None:
                assert (plane.n_images, plane.image_shape[:2]) == (view.n_images, whole.shape)
                np.testing.assert_array_equal(again.read(number, window), plane.read(number, whole)[window.slices])


# what a view changes beside its samples
CHANGED = {
    "each channel": {"decides_each"},
    "chosen": {"names", "frame_numbers", "alpha", "companions"},
    "cut": {"image_shape", "alpha", "companions"},
    "watched": {"alpha", "companions"},
    "aligned": {"alpha", "companions", "transforms"},
    "corrected": {"companions", "correction"},
    "slabs": {"names", "frame_numbers", "alpha", "companions", "scratch_bytes", "whole_bytes"},
    "previewed": {"previews"},
}


@pytest.mark.parametrize("name", [*CHANGED, "stack", "guided"])
def test_every_view_keeps_what_it_does_not_change(name):
    full = full_stack()
    view = VIEWS[name](full)
    kept = set(vars(full)) - CHANGED.get(name, set()) - {"read", "find_valid"}

    assert [attribute for attribute in kept if getattr(view, attribute) != getattr(full, attribute)] == []
    assert [attribute for attribute in CHANGED.get(name, ()) if getattr(view, attribute) == getattr(full, attribute)] == []


def test_a_stack_has_nothing_that_it_was_not_given():
    stack = stack_arrays(make_images())

    assert (stack.alpha, stack.companions, stack.transforms, stack.correction, stack.each_channel()) == (None,) * 5
    assert (stack.sources, stack.frame_numbers, stack.deciding_channels, stack.scratch_bytes) == ((), (), (), 0)
    assert (stack.has_validity, stack.decides_each, stack.n_separate_channels) == (False, False, 0)
    assert stack.names == ("image 1", "image 2", "image 3")
    assert stack_arrays(make_images(2), names=("near", "far")).names == ("near", "far")


def test_some_images_are_shown_under_new_numbers():
    full = full_stack()
    part, whole = full.choose([2, 0]), Window.whole(SHAPE)

    assert (part.names, part.frame_numbers) == (("image 3", "image 1"), (7, 5))
    np.testing.assert_array_equal(part.read(0, whole), full.read(2, whole))
    np.testing.assert_array_equal(part.companions.read(1, whole), full.companions.read(0, whole))
    np.testing.assert_array_equal(part.valid(0, whole), full.valid(2, whole))


def test_a_rectangle_is_a_stack_of_its_own():
    full = full_stack()
    cut, window, behind = full.cut(Window(1, 2, 5, 8)), Window(0, 0, 2, 3), Window(1, 2, 3, 5)

    assert cut.image_shape == (4, 6, 3)
    np.testing.assert_array_equal(cut.read(1, window), full.read(1, behind))
    np.testing.assert_array_equal(cut.companions.read(1, window), full.companions.read(1, behind))
    assert cut.valid(2, window).all()


def test_pixels_are_chosen_that_the_guide_and_the_stack_have():
    guided = join_guide(full_stack(), lacking_stack(make_images(), (3, 0, 0)))

    assert [guided.valid(number, Window(0, 0, 1, 4)).sum() for number in range(3)] == [1, 3, 2]
    assert not join_guide(stack_arrays(make_images()), stack_arrays(make_images())).has_validity


def test_before_every_window_of_a_watched_stack_the_check_is_called():
    full, asked = full_stack(), []
    watched, window = full.watched(lambda: asked.append(1)), Window(0, 0, 2, 3)

    for plane in (watched, watched.companions, watched.alpha, watched.cut(window)):
        plane.read(1, window)

    assert asked == [1] * 4


def test_nothing_is_read_of_a_watched_stack_once_it_is_cancelled():
    def refuse():
        raise Cancelled

    with pytest.raises(Cancelled):
        stack_arrays(make_images()).watched(refuse).read(0, Window(0, 0, 1, 1))


@pytest.mark.parametrize("show", [lambda stack: stack, lambda stack: stack.cut(Window(0, 0, 9, 9))])
def test_in_another_process_a_watched_stack_is_the_plain_one(show):
    asked = []
    watched = show(stack_arrays(make_images()).watched(lambda: asked.append(1)))

    pickle.loads(pickle.dumps(watched)).read(0, Window(0, 0, 1, 1))

    assert asked == []


def test_channels_that_decide_are_corrected_among_all_channels():
    images = [image // 4 for image in make_images()]
    stack = stack_arrays([image[..., [2, 0]] for image in images]).replaced(companions=stack_arrays(images), deciding_channels=(2, 0))
    correction = ExposureCorrection(gains=((1.0, 1.0), (3.0, 2.0), (1.0, 1.0)), offsets=((0.0, 0.0),) * 3, reference=0)

    corrected = correct_stack(stack, correction).companions.read(1, Window.whole(stack.image_shape))

    np.testing.assert_array_equal(corrected, images[1] * np.array([2, 1, 3], np.uint8))


def test_all_channels_follow_where_some_decide_and_otherwise_alpha_does():
    stack, alpha, channels = (stack_arrays(make_images()) for _ in range(3))

    assert stack.further_planes is None
    assert stack.replaced(alpha=alpha).further_planes is alpha
    assert stack.replaced(alpha=alpha, companions=channels).further_planes is channels


@pytest.mark.parametrize(("n_images", "given"), [(0, "0 images were given"), (1, "1 image was given")])
def test_fewer_than_two_images_are_refused(n_images, given):
    with pytest.raises(InvalidImageError, match=f"{given}; at least 2"):
        check_number(n_images)


# --- the focus range ---


def test_every_sample_of_a_small_stack_is_measured_for_its_focus_range():
    images = make_images()

    np.testing.assert_array_equal(sample_stack(stack_arrays(images)), images)


def test_windows_spread_over_all_of_a_large_stack_are_measured_for_its_focus_range():
    places = []

    def read(number, window):
        places.append((number, window))
        return np.zeros(window.shape, np.uint8)

    samples = sample_stack(Stack(names=number_images(40), image_shape=(3000, 5000), dtype=np.dtype(np.uint8), read=read))

    assert len(samples) == 2 * N_SAMPLED_PLACES
    assert {number for number, _ in places} == set(range(40))
    is_seen = np.zeros((8, 8), bool)
    for _, window in places:
        assert window.bottom <= 3000
        assert window.right <= 5000
        is_seen[window.top * 8 // 3000, window.left * 8 // 5000] = True
    assert is_seen.all()


def test_the_range_is_that_given_or_that_of_the_bits_or_that_of_the_samples():
    dark = stack_arrays([np.full((8, 8), 100, np.uint16), np.full((8, 8), 300, np.uint16)])
    bright = stack_arrays([np.full((8, 8), 100, np.uint16), np.full((8, 8), 5000, np.uint16)])
    described = {"metadata": ImageMetadata(significant_bits=12)}

    assert choose_focus_range(dark.replaced(**described), (1, 2)) == (1, 2)
    assert choose_focus_range(dark.replaced(**described), None) == (0, 4095)
    assert choose_focus_range(bright.replaced(**described), None) == (100, 5000)  # the samples contradict the claim
    assert choose_focus_range(dark, None) == (100, 300)


def test_channels_recorded_one_by_one_have_a_range_each_whatever_their_bits_and_colors_share_one():
    image = np.zeros((8, 8, 3), np.uint16)
    image[:4, :, 0], image[:4, :, 1] = 4000, 30
    colors = stack_arrays([image, image[::-1]])
    dyes = colors.replaced(n_separate_channels=2, metadata=ImageMetadata(significant_bits=12))

    assert choose_focus_range(dyes, None) == ((0, 4000), (0, 30))
    assert choose_focus_range(dyes, (1, 2)) == (1, 2)
    assert choose_focus_range(dyes, [(1, 2), (3, 4)]) == ((1, 2), (3, 4))
    assert choose_focus_range(colors, None) == (0, 4000)
    assert choose_focus_range(colors, [(0, 1), (0, 2), (0, 3)]) == ((0, 1), (0, 2), (0, 3))
    assert len(choose_focus_range(choose_deciding_channels(colors, "each"), None)) == 3


def test_nan_is_refused_by_name():
    flawed = [np.zeros((8, 8)), np.full((8, 8), np.nan)]

    with pytest.raises(InvalidImageError, match="far holds NaN or infinite samples"):
        sample_stack(stack_arrays(flawed, names=("near", "far")))


# --- as a dask array ---


@pytest.mark.parametrize("is_color", [True, False])
def test_the_dask_array_holds_the_samples_of_the_files_in_order_here_and_in_another_process(tmp_path, monkeypatch, is_color):
    monkeypatch.setattr(stack_module, "CHUNK_SIDE_PX", 16)
    images = make_focus_stack(n_images=3, shape=(20, 33), is_color=is_color, dtype=np.uint16).images
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, image in zip(paths, images, strict=True):
        write_image(path, image)

    array = open_stack(paths).to_dask()

    assert array.chunks[:3] == ((1, 1, 1), (16, 4), (16, 16, 1))
    assert array.dtype == np.uint16
    np.testing.assert_array_equal(array.compute(), images)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(array)).compute(), images)


def test_of_a_dask_array_only_the_chunks_that_are_computed_are_read(monkeypatch):
    monkeypatch.setattr(stack_module, "CHUNK_SIDE_PX", 16)
    stack = logged_stack(np.zeros((3, 40, 40), np.uint8))

    array = stack.to_dask()
    assert stack.read.places == []
    array[1, 16:20, 0:5].compute()

    assert stack.read.places == [(1, Window(16, 0, 32, 16))]
