import numpy as np

from qmcif_engine.stack.alignment.suggestion import suggest_alignment
from qmcif_engine.stack.alignment.transforms import TransformModel
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack


def test_an_aligned_stack_needs_nothing():
    assert suggest_alignment(stack_arrays(list(make_focus_stack(n_images=3, shape=(240, 320)).images))) is None


def test_a_shifted_stack_needs_a_translation(move_stack, similarity):
    suggestion = suggest_alignment(move_stack([np.eye(3), similarity(shift=(6.0, -3.0))]))

    assert suggestion.model is TransformModel.TRANSLATION
    assert abs(suggestion.movement_px - np.hypot(6, 3)) < 0.5
    assert suggestion.message == "this stack looks misaligned by about 7 px between neighboring images: try --align translation"


def test_a_breathing_stack_needs_a_similarity(move_stack, similarity):
    suggestion = suggest_alignment(move_stack([np.eye(3), similarity(growth=1.02), similarity(growth=1.04)]))

    assert suggestion.model is TransformModel.SIMILARITY
    assert 3 < suggestion.movement_px < 6


def test_what_cannot_be_judged_raises_no_alarm():
    flat = np.full((200, 260), 80, np.uint8)

    assert suggest_alignment(stack_arrays([flat, flat])) is None
    assert suggest_alignment(stack_arrays([flat])) is None
