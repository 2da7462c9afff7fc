import numpy as np
import pytest

from qmcif_engine.errors import Cancelled, InvalidConfigError
from qmcif_engine.stack.alignment import estimation
from qmcif_engine.stack.alignment.estimation import estimate_transforms
from qmcif_engine.stack.alignment.pairs import Link
from qmcif_engine.stack.alignment.transforms import TransformModel, apply_matrix, frame_corners
from qmcif_engine.stack.alignment.warping import align_stack
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.stack.window import Window
from tests.scenes import logged_stack

TILTED_CORNER_ERROR_PX = 0.8  # a homography has twice the parameters
CORNER_ERROR_PX = 0.5  # of frames of 320 x 240 px; larger ones are found better


@pytest.fixture(scope="module")
def moved(move_stack, similarity):
    """A stack, and how each of its images moved against the scene."""
    steps = [similarity(growth=1.008, turn=0.003, shift=(3.2, -4.7)), similarity(growth=0.995, turn=-0.004, shift=(-6.1, 2.4))]
    matrices = [np.eye(3), steps[0], steps[1] @ steps[0]]
    return move_stack(matrices), matrices


def corner_errors(transforms, matrices):
    corners = frame_corners(transforms.image_shape)
    to_scene = np.linalg.inv(matrices[transforms.reference])
    found = [apply_matrix(transforms.matrix(number), corners) for number in range(transforms.n_images)]
    true = [apply_matrix(matrix @ to_scene, corners) for matrix in matrices]
    return np.hypot(*np.moveaxis(np.array(found) - np.array(true), -1, 0)).max(axis=1)


@pytest.mark.parametrize("model", [TransformModel.SIMILARITY, TransformModel.AFFINE])
@pytest.mark.parametrize("reference", [None, 0])
def test_known_movements_are_found_although_the_focus_differs(moved, model, reference):
    stack, matrices = moved

    transforms = estimate_transforms(stack, model, reference=reference)

    assert transforms.reference == (1 if reference is None else reference)
    assert transforms.model is model
    assert transforms.warnings == ()
    assert corner_errors(transforms, matrices).max() <= CORNER_ERROR_PX


def test_a_tilted_scene_needs_a_homography(move_stack, similarity, tilt):
    matrices = [np.eye(3), tilt(0.03, -0.02) @ similarity(turn=0.003, shift=(2.2, -1.7)), tilt(-0.02, 0.03)]
    stack = move_stack(matrices)
    rigid, free = (estimate_transforms(stack, model) for model in (TransformModel.SIMILARITY, TransformModel.HOMOGRAPHY))

    assert free.model is TransformModel.HOMOGRAPHY
    assert free.warnings == ()
    assert corner_errors(free, matrices).max() <= TILTED_CORNER_ERROR_PX < corner_errors(rigid, matrices).max()


def test_without_perspective_a_homography_is_the_similarity(moved):
    stack, _ = moved
    rigid, free = (estimate_transforms(stack, model) for model in (TransformModel.SIMILARITY, TransformModel.HOMOGRAPHY))

    assert free.matrices == rigid.matrices
    assert (free.model, free.warnings) == (TransformModel.HOMOGRAPHY, ())


def test_texture_in_one_corner_carries_a_similarity_and_a_note(move_stack, similarity):
    matrices = [np.eye(3), similarity(shift=(3.4, -2.2))]
    stack, whole = move_stack(matrices), Window(0, 0, 240, 320)
    fade = np.clip((130 - np.hypot(*np.mgrid[:240, :320])) / 20, 0, 1)
    cornered = stack_arrays([np.rint(128 + (stack.read(number, whole) - 128.0) * fade).astype(np.uint8) for number in (0, 1)])

    transforms = estimate_transforms(cornered, TransformModel.HOMOGRAPHY)

    assert [warning.number for warning in transforms.warnings] == [0]
    assert "no homography could be estimated and a similarity is assumed" in transforms.warnings[0].message
    assert "or they lie too close together" in transforms.warnings[0].message
    assert transforms.matrices[0][2] == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_deep_samples_are_aligned_as_well(move_stack, similarity, dtype):
    matrices = [np.eye(3), similarity(growth=1.01, shift=(2.5, -3.5))]
    stack = move_stack(matrices, dtype=dtype)

    assert corner_errors(estimate_transforms(stack, TransformModel.SIMILARITY), matrices).max() <= CORNER_ERROR_PX


def test_exposure_does_not_matter(moved):
    stack, matrices = moved
    whole = Window.whole(stack.image_shape)
    gains = (0.7, 1.0, 0.85)
    flickering = stack_arrays([np.rint(stack.read(number, whole) * gain).astype(np.uint8) for number, gain in enumerate(gains)])

    assert corner_errors(estimate_transforms(flickering, TransformModel.SIMILARITY), matrices).max() <= CORNER_ERROR_PX


def test_an_aligned_stack_is_left_alone_sample_by_sample():
    stack = stack_arrays(list(make_focus_stack(n_images=4, shape=(240, 320)).images))

    for model in (TransformModel.TRANSLATION, TransformModel.SIMILARITY, TransformModel.AFFINE, TransformModel.HOMOGRAPHY):
        assert estimate_transforms(stack, model).is_identity


def test_the_same_stack_gives_the_same_numbers(moved):
    first, second = (estimate_transforms(moved[0], TransformModel.SIMILARITY) for _ in range(2))

    assert first == second


def test_no_alignment_reads_nothing():
    stack = logged_stack([np.zeros((20, 30), np.uint8)] * 3, fail_after=0)

    assert estimate_transforms(stack, TransformModel.NONE).is_identity
    assert estimate_transforms(stack.choose([0]), TransformModel.AFFINE).is_identity


def test_an_image_without_texture_stays_with_its_neighbor_and_is_told(moved):
    stack, matrices = moved
    images = [stack.read(number, Window.whole(stack.image_shape)) for number in range(3)]
    stack = stack_arrays([*images, np.full_like(images[0], 90)], names=("a", "b", "c", "fog"))

    transforms = estimate_transforms(stack, TransformModel.SIMILARITY, reference=1)

    (warning,) = transforms.warnings
    assert warning.number == 3
    assert warning.message.startswith("fog against c: no movement could be estimated and none is assumed, because too few windows")
    np.testing.assert_allclose(transforms.matrices[3], transforms.matrices[2], atol=1e-9)
    assert corner_errors(transforms, [*matrices, matrices[2]])[:3].max() <= CORNER_ERROR_PX


def test_an_image_out_of_order_is_linked_to_the_one_it_looks_like(moved):
    stack, matrices = moved
    images = [stack.read(number, Window.whole(stack.image_shape)) for number in range(3)]
    fog = np.full_like(images[0], 90)

    transforms = estimate_transforms(stack_arrays([images[0], images[1], fog, images[2]]), TransformModel.SIMILARITY, reference=0)

    assert [warning.number for warning in transforms.warnings] == [2]
    assert corner_errors(transforms, [matrices[0], matrices[1], np.eye(3), matrices[2]])[[1, 3]].max() <= CORNER_ERROR_PX


def test_links_that_contradict_each_other_are_told(moved, monkeypatch, similarity):
    stack, _ = moved
    wrong = Link(similarity(shift=(5.0, 0.0)), TransformModel.SIMILARITY, 0.1, 0.2, 5.0, 0.9)
    monkeypatch.setattr(estimation, "refine_link", lambda *_, start, **__: wrong._replace(matrix=wrong.matrix @ start))

    transforms = estimate_transforms(stack, TransformModel.SIMILARITY)

    assert transforms.warnings  # of three images, which link is wrong cannot be known
    assert all("comparisons with other images contradict each other" in warning.message for warning in transforms.warnings)


def test_links_beyond_neighbors_keep_errors_from_adding_up(move_stack, similarity):
    matrices = [similarity(shift=(0.7 * number, -0.4 * number)) for number in range(12)]
    stack = move_stack([matrices[number] for number in range(12)])

    transforms = estimate_transforms(stack, TransformModel.SIMILARITY, reference=0)

    assert corner_errors(transforms, matrices).max() <= CORNER_ERROR_PX


def test_progress_counts_images_and_a_cancelled_estimate_ends(moved):
    steps = []
    estimate_transforms(moved[0], TransformModel.TRANSLATION, on_progress=lambda *step: steps.append(step))
    assert steps == [(1, 3), (2, 3), (3, 3)]

    def refuse():
        msg = "enough"
        raise Cancelled(msg)

    with pytest.raises(Cancelled, match="enough"):
        estimate_transforms(moved[0], TransformModel.TRANSLATION, check_cancelled=refuse)


@pytest.mark.parametrize("reference", [-1, 3])
def test_a_reference_outside_the_stack_is_refused(moved, reference):
    with pytest.raises(InvalidConfigError, match=f"image {reference} was given as the reference, counted from 0; the stack has 3"):
        estimate_transforms(moved[0], TransformModel.SIMILARITY, reference=reference)


def test_aligned_images_agree_where_both_are_valid(move_stack, similarity):
    stack = move_stack([np.eye(3), similarity(growth=1.01, turn=0.004, shift=(6.0, -5.0))])
    aligned = align_stack(stack, estimate_transforms(stack, TransformModel.SIMILARITY))
    whole = Window.whole(stack.image_shape)
    is_valid = aligned.valid(0, whole) & aligned.valid(1, whole)

    before, after = (np.abs(source.read(0, whole).astype(float) - source.read(1, whole))[is_valid].mean() for source in (stack, aligned))

    assert after < 0.7 * before
