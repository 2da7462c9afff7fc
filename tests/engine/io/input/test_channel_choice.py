from __future__ import annotations

import numpy as np
import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.file_stack import ZERO_PLANE, choose_channels
from qmcif_engine.io.input.frame_source import SourceDescription
from qmcif_engine.stack.image_metadata import ImageMetadata


def described(n_channels, *names):
    return SourceDescription(
        names=("it",), height=1, width=1, n_channels=n_channels, dtype=np.dtype("u1"), metadata=ImageMetadata(channel_names=names)
    )


@pytest.mark.parametrize(("n_channels", "expected"), [(1, (0,)), (2, (0, 1, ZERO_PLANE)), (3, (0, 1, 2))])
def test_up_to_three_channels_all_decide(n_channels, expected):
    assert choose_channels(described(n_channels), None) == expected


def test_channels_are_chosen_by_number_from_one_or_by_name():
    found = described(5, "a", "b", "c", "d", "e")
    assert choose_channels(found, ["e", 1, "c"]) == (4, 0, 2)
    assert choose_channels(found, [2]) == (1,)
    assert choose_channels(found, ["b", 5]) == (1, 4, ZERO_PLANE)


def test_more_than_three_channels_need_a_choice():
    with pytest.raises(
        InvalidConfigError, match=r"it has 4 channels \(a, b, c, d\); up to 3 decide about focus: choose them with channels="
    ):
        choose_channels(described(4, "a", "b", "c", "d"), None)


@pytest.mark.parametrize("wanted", [[], [1, 1], [1, 2, 3, 4]])
def test_a_choice_of_none_of_too_many_or_of_equal_channels_is_refused(wanted):
    with pytest.raises(InvalidConfigError, match="were chosen; one to 3 different ones are needed"):
        choose_channels(described(5), wanted)


@pytest.mark.parametrize("channel", [0, 6, "x", "a"])
def test_a_channel_that_does_not_exist_or_is_ambiguous_is_refused(channel):
    with pytest.raises(InvalidConfigError, match=r"there is no channel .*; a number from 1 to 5 or a name is needed \(a, a, c, d, e\)"):
        choose_channels(described(5, "a", "a", "c", "d", "e"), [channel])
