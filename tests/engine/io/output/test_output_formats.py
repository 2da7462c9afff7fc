"""Further outputs are called after the first and keep its format."""

from pathlib import Path

import pytest

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.formats import name_beside


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.ome.tif", "a_t1.ome.tif"),
        ("a.b.TIFF", "a.b_t1.TIFF"),
        ("a.ome.zarr", "a_t1.ome.zarr"),
        ("a.zarr", "a_t1.zarr"),
        ("folder/x.png", "folder/x_t1.png"),
    ],
)
def test_the_addition_stands_before_the_whole_suffix(name, expected):
    assert name_beside(Path(name), "_t1") == Path(expected)


def test_a_name_without_a_known_suffix_is_refused():
    with pytest.raises(OutputError, match=r"'a\.txt' has the suffix '\.txt'"):
        name_beside(Path("a.txt"), "_t1")
