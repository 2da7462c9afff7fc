"""Heights as other programs take them, each opened by a reader that is not ours."""

from __future__ import annotations

import csv

import numpy as np
import pytest
import tifffile
from PIL import Image

from qmcif_engine.cli import main
from qmcif_engine.stack.synthetic import make_focus_stack

meshio = pytest.importorskip("meshio")
trimesh = pytest.importorskip("trimesh")

STACK = make_focus_stack(n_images=4, shape=(40, 48)).images


@pytest.fixture(scope="module")
def fused(tmp_path_factory):
    """A folder with a fused image, and its heights as OME-TIFF and as plain TIFF in micrometers."""
    folder = tmp_path_factory.mktemp("surface")
    metadata = {"axes": "ZYXS", "PhysicalSizeX": 200, "PhysicalSizeXUnit": "nm", "PhysicalSizeY": 0.1, "PhysicalSizeYUnit": "µm"}
    metadata |= {"PhysicalSizeZ": 2500, "PhysicalSizeZUnit": "nm"}
    tifffile.imwrite(folder / "stack.ome.tif", STACK, photometric="rgb", ome=True, metadata=metadata)
    for height in ("height.ome.tif", "height.tif"):
        arguments = ["fuse", folder / "stack.ome.tif", "-o", folder / "fused.ome.tif", "--depth", folder / height, "--z-unit", "micrometer"]
        assert main([*map(str, arguments), "--overwrite"]) == 0
    return folder


def surface(folder, target, *arguments):
    return main(["surface", str(folder / "height.ome.tif"), "-o", str(target), *map(str, arguments)])


def stored_heights(folder):
    return tifffile.imread(folder / "height.ome.tif")


def expected_points(heights, stride=1):
    rows, columns = np.mgrid[: heights.shape[0] : stride, : heights.shape[1] : stride]
    return np.stack([columns * 0.2, -rows * 0.1, heights[::stride, ::stride]], axis=-1).reshape(-1, 3)


def test_heights_are_a_tiff_of_32_bits_in_micrometers(fused):
    with Image.open(fused / "height.tif") as picture:
        assert picture.mode == "F"
        heights = np.asarray(picture)
    np.testing.assert_array_equal(heights, stored_heights(fused))
    assert 0 <= heights.min() <= heights.max() <= 3 * 2.5
    assert heights.max() > 2.5, "heights of a stack that is deeper than a step"
    with tifffile.TiffFile(fused / "height.ome.tif") as file:
        assert 'Name="height in micrometer"' in file.ome_metadata


def test_stl_has_the_points_of_the_map(fused, tmp_path):
    assert surface(fused, tmp_path / "heights.stl") == 0
    found = trimesh.load(tmp_path / "heights.stl", process=False)
    heights = stored_heights(fused)
    assert len(found.faces) == 2 * 39 * 47
    points = expected_points(heights).astype(np.float32)
    assert {tuple(point) for point in found.vertices.astype(np.float32).tolist()} == {tuple(point) for point in points.tolist()}
    assert (found.face_normals[:, 2] > 0).all(), "every triangle is seen from above"
    assert len(meshio.read(tmp_path / "heights.stl").cells_dict["triangle"]) == 2 * 39 * 47


def test_ply_has_points_and_the_colors_of_the_picture(fused, tmp_path):
    assert surface(fused, tmp_path / "heights.ply", "--image", fused / "fused.ome.tif", "--stride", 2) == 0
    found = trimesh.load(tmp_path / "heights.ply", process=False)
    picture = tifffile.imread(fused / "fused.ome.tif")
    np.testing.assert_allclose(found.vertices, expected_points(stored_heights(fused), 2), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(found.visual.vertex_colors[:, :3], picture[::2, ::2].reshape(-1, 3))
    other = meshio.read(tmp_path / "heights.ply")
    red = np.asarray(other.point_data["red"]).astype(np.uint8)  # meshio takes unsigned bytes for signed ones
    np.testing.assert_array_equal(red, picture[::2, ::2, 0].reshape(-1))
    assert len(other.cells_dict["triangle"]) == 2 * 19 * 23


def test_obj_has_the_picture_as_its_texture(fused, tmp_path):
    assert surface(fused, tmp_path / "heights.obj", "--image", fused / "fused.ome.tif") == 0
    found = trimesh.load(tmp_path / "heights.obj", process=False)
    picture = tifffile.imread(fused / "fused.ome.tif")
    np.testing.assert_allclose(found.vertices, expected_points(stored_heights(fused)), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(np.asarray(found.visual.material.image), picture)
    across, up = found.visual.uv.T
    columns, rows = np.rint(across * 48 - 0.5).astype(int), np.rint((1 - up) * 40 - 0.5).astype(int)
    np.testing.assert_allclose(found.vertices[:, 0], columns * 0.2, atol=1e-6)
    np.testing.assert_allclose(found.vertices[:, 1], -rows * 0.1, atol=1e-6)


def test_obj_without_a_picture_is_one_file(fused, tmp_path):
    assert surface(fused, tmp_path / "heights.obj") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["heights.obj"]
    assert len(meshio.read(tmp_path / "heights.obj").points) == 40 * 48


def test_profile_is_a_table_along_the_line(fused, tmp_path):
    assert surface(fused, tmp_path / "line.csv", "--line", 3, 5, 43, 35) == 0
    with (tmp_path / "line.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["distance (micrometer)", "column (px)", "row (px)", "height (micrometer)"]
    assert len(rows) == 51
    heights = stored_heights(fused)
    assert float(rows[0]["height (micrometer)"]) == pytest.approx(heights[5, 3])
    assert float(rows[-1]["height (micrometer)"]) == pytest.approx(heights[35, 43])
    assert float(rows[-1]["distance (micrometer)"]) == pytest.approx(np.hypot(40 * 0.2, 30 * 0.1))
    middle = rows[25]
    assert (float(middle["column (px)"]), float(middle["row (px)"])) == (23, 20)
    assert float(middle["height (micrometer)"]) == pytest.approx(heights[20, 23])


def test_same_heights_give_the_same_bytes(fused, tmp_path):
    for name in ("a.stl", "b.stl", "a.ply", "b.ply"):
        assert surface(fused, tmp_path / name) == 0
    assert (tmp_path / "a.stl").read_bytes() == (tmp_path / "b.stl").read_bytes()
    assert (tmp_path / "a.ply").read_bytes() == (tmp_path / "b.ply").read_bytes()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("out.xyz", [], "one of .stl, .obj, .ply, .csv is needed: rename it"),
        ("out.csv", [], "a profile is a .csv file along a --line"),
        ("out.stl", ["--line", "0", "0", "1", "1"], "a profile is a .csv file along a --line"),
        ("out.stl", ["--image", "fused.ome.tif"], ".stl holds no colors: use .obj or .ply"),
        ("out.stl", ["--stride", "0"], "--stride is 0; a number above 0 is needed"),
        ("out.stl", ["--stride", "40"], "at least 2 x 2 are needed: take a smaller --stride"),
        ("out.stl", ["--pixel-size", "nan"], "--pixel-size is nan; a number above 0 is needed"),
        ("out.csv", ["--line", "0", "0", "48", "1"], "two different points within columns 0 to 47 and rows 0 to 39 are needed"),
        ("out.csv", ["--line", "1", "1", "1", "1"], "two different points"),
        ("out 1.obj", ["--image", "fused.ome.tif"], "letters without accents and no blanks are needed: rename the target"),
        ("out.ply", ["--image", "stack.ome.tif"], "one gray or RGB image of 48 x 40 pixels, as the heights have, is needed"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(fused, tmp_path, capsys, name, arguments, message):
    given = [str(fused / word) if word.endswith(".tif") else word for word in arguments]
    assert surface(fused, tmp_path / name, *given) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_file_that_holds_no_heights_is_refused(fused, tmp_path, capsys):
    assert main(["surface", str(fused / "fused.ome.tif"), "-o", str(tmp_path / "out.stl")]) == 2
    assert "one plane of heights as floats is needed; pass what fuse --depth wrote" in capsys.readouterr().err


def test_plain_tiff_that_we_wrote_knows_its_scale(fused, tmp_path):
    assert main(["surface", str(fused / "height.tif"), "-o", str(tmp_path / "plain.stl")]) == 0
    assert surface(fused, tmp_path / "ome.stl") == 0
    np.testing.assert_allclose(trimesh.load(tmp_path / "plain.stl").bounds, trimesh.load(tmp_path / "ome.stl").bounds, rtol=1e-5)


def test_file_without_a_scale_needs_the_size_of_a_pixel(fused, tmp_path, capsys):
    bare = tmp_path / "bare.tif"
    tifffile.imwrite(bare, stored_heights(fused), metadata=None)
    assert main(["surface", str(bare), "-o", str(tmp_path / "out.stl")]) == 2
    assert "does not say how large a pixel is, which is needed: give its side with --pixel-size" in capsys.readouterr().err
    assert main(["surface", str(bare), "-o", str(tmp_path / "out.stl"), "--pixel-size", "0.5"]) == 0
    assert trimesh.load(tmp_path / "out.stl").bounds[1, 0] == pytest.approx(47 * 0.5)


def test_existing_files_are_replaced_only_when_told_to(fused, tmp_path, capsys):
    target = tmp_path / "out.obj"
    (tmp_path / "out.mtl").write_text("mine")
    assert surface(fused, target, "--image", fused / "fused.ome.tif") == 2
    assert "out.mtl" in capsys.readouterr().err
    assert (tmp_path / "out.mtl").read_text() == "mine"
    assert not target.exists()
    assert surface(fused, target, "--image", fused / "fused.ome.tif", "--overwrite") == 0


def test_heights_that_are_no_number_are_refused(tmp_path, capsys):
    heights = np.zeros((6, 8), np.float32)
    heights[2, 3] = np.nan
    tifffile.imwrite(tmp_path / "height.tif", heights)
    assert main(["surface", str(tmp_path / "height.tif"), "-o", str(tmp_path / "out.stl"), "--pixel-size", "1"]) == 2
    assert "NaN or infinite samples; finite ones is needed" in capsys.readouterr().err
