"""The preferred end of the stack wins where both could, and nothing changes where none is preferred."""

import numpy as np
import pytest

from qmcif_engine.cleanup.preference import WeightedLevels, weigh_images
from qmcif_engine.config.fusion_config import DecisionConfig, FusionConfig, Preference
from qmcif_engine.fusing.in_memory import fuse


def test_without_a_preference_all_images_weigh_the_same():
    assert weigh_images(4, DecisionConfig(preference_ratio=9.0)) == (1.0, 1.0, 1.0, 1.0)


def test_the_preferred_end_has_the_whole_ratio_and_neighbors_an_equal_share_of_it():
    front = weigh_images(3, DecisionConfig(preference=Preference.FRONT, preference_ratio=4.0))
    back = weigh_images(3, DecisionConfig(preference=Preference.BACK, preference_ratio=4.0))

    np.testing.assert_allclose(front, (4, 2, 1))
    assert back == front[::-1]


def test_weighted_levels_are_the_levels_times_their_weight_in_their_own_type():
    levels = [np.full((2, 3), number, np.float32) for number in range(3)]

    weighted = WeightedLevels(levels, (4.0, 2.0, 1.0))

    assert len(weighted) == 3
    assert [float(level[0, 0]) for level in weighted] == [0, 2, 2]
    assert weighted[1].dtype == np.float32
    assert [float(level[0, 0]) for level in weighted[1:]] == [2, 2]


@pytest.fixture(scope="module")
def see_through():
    """Both images are equally sharp everywhere, each with a texture of its own: either could give any pixel."""
    generator = np.random.default_rng(5)
    first = generator.integers(0, 256, (48, 64)).astype(np.uint8)
    return [first, first[::-1, ::-1].copy()]


@pytest.mark.parametrize(("preference", "winner"), [("front", 0), ("back", 1)])
def test_where_both_images_are_as_sharp_the_preferred_one_gives_every_pixel(see_through, preference, winner):
    # noise is not equally sharp in every small patch: at the border, where few pixels count, 1.5 times does happen
    result = fuse(see_through, FusionConfig().replaced({"preference": preference, "preference_ratio": 2.0}))

    assert (result.source_index == winner).all()


def test_without_a_preference_both_give_some(see_through):
    assert min(fuse(see_through).pixels_by_image) > 0


@pytest.mark.parametrize("preference", ["front", "back"])
def test_what_only_one_image_has_sharp_is_taken_from_it_whatever_is_preferred(preference):
    generator = np.random.default_rng(6)
    sharp = generator.integers(0, 256, (48, 64)).astype(np.uint8)
    blurred = np.full_like(sharp, sharp.mean())
    left = np.arange(64) < 32
    pair = [np.where(left, sharp, blurred), np.where(left, blurred, sharp)]

    index = fuse(pair, FusionConfig().replaced({"preference": preference})).source_index

    assert (index[:, :24] == 0).all()
    assert (index[:, 40:] == 1).all()
