"""One list of maps: what it declares is what every way to fuse gives."""

import numpy as np
import pytest
import tifffile

from qmcif_engine import fuse, fuse_lazily, fuse_to_file
from qmcif_engine.cli.parser import build_parser
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, WRITTEN_MAPS, Asked

SHAPE = (40, 50)
IMAGES = np.random.default_rng(3).integers(0, 255, (3, *SHAPE), dtype=np.uint8)


def test_maps_have_their_declared_type_in_memory_and_lazily():
    result = fuse(IMAGES, with_maps=True, with_position=True)
    lazy = fuse_lazily(stack_arrays(list(IMAGES)), with_position=True)
    for name, declared in OUTPUT_MAPS.items():
        plane, later = getattr(result, name), getattr(lazy, name)
        assert (plane.shape, plane.dtype.name) == (SHAPE, declared.dtype)
        assert (later.shape, later.dtype.name) == (SHAPE, declared.dtype)
        np.testing.assert_array_equal(later.compute(scheduler="synchronous"), plane)
        assert plane.max() <= (len(IMAGES) - 1 if declared.counts_images else 1)


@pytest.mark.parametrize(
    ("asked", "given"), [({}, [Asked.ALWAYS]), ({"with_maps": True}, [Asked.ALWAYS, Asked.WITH_MAPS]), ({"with_position": True}, None)]
)
def test_maps_are_made_when_they_are_asked_for(asked, given):
    result = fuse(IMAGES, **asked)
    for name, declared in OUTPUT_MAPS.items():
        is_given = declared.asked in (given or [Asked.ALWAYS, Asked.WITH_POSITION])
        assert (getattr(result, name) is not None) == is_given, name


def test_files_of_maps_are_those_that_are_written(tmp_path):
    fuse_to_file(stack_arrays(list(IMAGES)), tmp_path / "p.tif", maps=tmp_path / "maps")
    found = {path.stem: tifffile.imread(path).dtype.name for path in (tmp_path / "maps").iterdir()}
    assert found == {name: OUTPUT_MAPS[name].dtype for name in WRITTEN_MAPS}
    assert "position" not in found


def test_the_help_of_the_command_names_every_map_that_is_written(capsys):
    with pytest.raises(SystemExit):
        build_parser().parse_args(["fuse", "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name in WRITTEN_MAPS:
        assert f"{name} ({OUTPUT_MAPS[name].meaning})" in shown
