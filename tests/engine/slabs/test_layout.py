"""Slabs cover the stack, overlap as asked, and say what they were made of."""

from itertools import pairwise

import pytest

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.slabs.layout import SlabFiles, plan_slabs


@pytest.mark.parametrize(("n_images", "size", "overlap"), [(10, 4, 1), (10, 4, 0), (300, 20, 5), (7, 6, 5), (3, 2, 0)])
def test_slabs_of_one_size_cover_every_image_and_overlap_at_least_as_asked(n_images, size, overlap):
    spans = plan_slabs(n_images, size=size, overlap=overlap)

    assert {len(span) for span in spans} == {size}
    assert sorted({number for span in spans for number in span}) == list(range(n_images))
    assert all(len(set(one) & set(other)) >= overlap for one, other in pairwise(spans))
    assert len(set(spans)) == len(spans)


@pytest.mark.parametrize("size", [1, 10, 11])
def test_a_size_that_is_no_part_of_the_stack_is_refused(size):
    with pytest.raises(InvalidConfigError, match=rf"slabs of {size} images were asked of a stack of 10; 2 to 9 are needed"):
        plan_slabs(10, size=size, overlap=0)


@pytest.mark.parametrize("overlap", [-1, 4])
def test_an_overlap_that_leaves_no_progress_is_refused(overlap):
    with pytest.raises(InvalidConfigError, match=rf"an overlap of {overlap} images was asked of slabs of 4; 0 to 3 are needed"):
        plan_slabs(10, size=4, overlap=overlap)


def test_a_slab_is_known_only_after_its_identity_was_noted(tmp_path):
    files = SlabFiles(tmp_path, 4)
    assert files.known_identity() is None

    files.note_identity("ab" * 32)

    assert files.known_identity() == "ab" * 32
    assert files.image.name == "slab_005.ome.tif"
