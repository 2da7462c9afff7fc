from __future__ import annotations

import json
import time

import numpy as np
import pytest
import tifffile

from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.window import Window

WHOLE = Window(0, 0, 20, 24)
PART = Window(3, 5, 17, 20)


def noise(dtype: str, *shape: int) -> np.ndarray:
    return (np.random.default_rng(len(shape)).random(shape) * 250).astype(dtype)


def saved(folder, array, name="stack.tif", **options):
    path = folder / name
    tifffile.imwrite(path, array, **{"photometric": "minisblack"} | options)
    return path


def frames(stack, window=WHOLE):
    return np.stack([stack.read(number, window) for number in range(stack.n_images)])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"metadata": None},
        {"metadata": {"axes": "ZYX"}},
        {"metadata": {"axes": "TYX"}},
        {"imagej": True, "metadata": {"axes": "ZYX"}},
        {"imagej": True, "metadata": {"axes": "ZYX"}, "compression": "zlib"},
        {"imagej": True, "metadata": {"axes": "TYX"}},
        {"ome": True, "metadata": {"axes": "ZYX"}},
        {"ome": True, "metadata": {"axes": "ZYX"}, "tile": (16, 16), "compression": "zlib"},
        {"truncate": True},
        {"compression": "zlib"},
        {"bigtiff": True, "byteorder": ">"},
    ],
)
def test_pages_of_one_file_are_the_stack_however_it_was_written(tmp_path, options):
    array = noise("uint16", 5, 20, 24)
    stack = open_stack(saved(tmp_path, array, **options))
    assert stack.n_images == 5
    assert stack.n_times == 1
    np.testing.assert_array_equal(frames(stack, PART), array[:, 3:17, 5:20])


@pytest.mark.parametrize("axes", ["TZCYX", "CZTYX", "ZTCYX"])
@pytest.mark.parametrize("kind", [{"ome": True}, {}])
def test_time_channel_and_focus_are_found_in_any_order(tmp_path, axes, kind):
    lengths = {"T": 2, "Z": 4, "C": 3, "Y": 20, "X": 24}
    array = noise("uint16", *(lengths[axis] for axis in axes))
    path = saved(tmp_path, array, metadata={"axes": axes}, **kind)
    expected = array.transpose([axes.index(axis) for axis in "TZYXC"])
    stack = open_stack(path, time=1)
    assert (stack.n_images, stack.n_times, stack.image_shape) == (4, 2, (20, 24, 3))
    np.testing.assert_array_equal(frames(stack), expected[1])
    np.testing.assert_array_equal(frames(stack.at_time(0)), expected[0])


def test_imagej_hyperstack_is_taken_apart(tmp_path):
    array = noise("uint16", 2, 4, 3, 20, 24)
    stack = open_stack(saved(tmp_path, array, imagej=True, metadata={"axes": "TZCYX"}), channels=[2], time=1)
    np.testing.assert_array_equal(frames(stack), array[1, :, 1])


@pytest.mark.parametrize(
    ("planar", "options"),
    [
        ("contig", {"metadata": {"axes": "ZYXS"}}),
        ("separate", {"metadata": {"axes": "ZSYX"}}),
        ("contig", {"metadata": {"axes": "ZYXS"}, "ome": True}),
        ("separate", {"metadata": {"axes": "ZSYX"}, "ome": True}),
        ("contig", {"metadata": None}),
        ("separate", {"metadata": None}),
    ],
)
def test_color_pages_are_color_images(tmp_path, planar, options):
    array = noise("uint8", 4, 20, 24, 3)
    stored = np.moveaxis(array, -1, 1) if planar == "separate" else array
    stack = open_stack(saved(tmp_path, stored, photometric="rgb", planarconfig=planar, **options))
    assert stack.image_shape == (20, 24, 3)
    np.testing.assert_array_equal(frames(stack), array)


def test_imagej_color_stack_is_color(tmp_path):
    array = noise("uint8", 4, 20, 24, 3)
    stack = open_stack(saved(tmp_path, array, imagej=True, photometric="rgb", metadata={"axes": "ZYXS"}))
    np.testing.assert_array_equal(frames(stack), array)


def test_more_channels_than_three_follow_as_companions(tmp_path):
    array = noise("uint16", 4, 5, 20, 24)
    path = saved(tmp_path, array, ome=True, metadata={"axes": "ZCYX", "Channel": {"Name": list("abcde")}})
    stack = open_stack(path, channels=["e", 1])
    np.testing.assert_array_equal(frames(stack)[..., 0], array[:, 4])
    np.testing.assert_array_equal(frames(stack)[..., 1], array[:, 0])
    assert not frames(stack)[..., 2].any()
    assert stack.companions is not None
    assert stack.companions.image_shape == (20, 24, 5)
    np.testing.assert_array_equal(frames(stack.companions, PART), np.moveaxis(array, 1, -1)[:, 3:17, 5:20])


def test_samples_of_a_microscope_are_channels(tmp_path):
    array = noise("uint16", 3, 5, 20, 24)
    path = saved(tmp_path, array, planarconfig="separate", metadata={"axes": "ZSYX"})
    stack = open_stack(path, channels=[5])
    assert stack.alpha is None
    np.testing.assert_array_equal(frames(stack), array[:, 4])
    named = open_stack(path, channels=[2], axes="ZCYX")
    np.testing.assert_array_equal(frames(named), array[:, 1])


def test_axes_named_by_the_user_go_before_those_of_the_file(tmp_path):
    array = noise("uint16", 5, 20, 24)
    path = saved(tmp_path, array, imagej=True)  # tifffile calls them channels
    with pytest.raises(InvalidImageError, match=r"has the axes T 1 x Z 1 x C 5 x Y 20 x X 24 x S 1; at least 2 images along one axis"):
        open_stack(path)
    np.testing.assert_array_equal(frames(open_stack(path, axes="ZYX")), array)


def test_named_axes_may_split_pages_that_the_file_calls_one_axis(tmp_path):
    array = noise("uint16", 4, 3, 20, 24)
    path = saved(tmp_path, array, metadata={"axes": "QRYX"})
    with pytest.raises(InvalidImageError, match="one axis to fuse along is needed: name them with axes="):
        open_stack(path)
    np.testing.assert_array_equal(frames(open_stack(path, axes="ZCYX")), np.moveaxis(array, 1, -1))


def test_axes_that_do_not_fit_the_pages_are_refused(tmp_path):
    path = saved(tmp_path, noise("uint16", 5, 20, 24))
    with pytest.raises(
        ImageFileError, match=r"holds pages of 24 x 20 pixels with 1 samples, which the axes YXZ .* do not fit; Y, X and S as"
    ):
        open_stack(path, axes="YXZ")


def test_smaller_copies_of_the_pages_are_left_alone(tmp_path):
    array = noise("uint16", 3, 64, 48)
    for name, options in (("plain.tif", {"metadata": None}), ("some.ome.tif", {"metadata": {"axes": "ZYX"}})):
        with tifffile.TiffWriter(tmp_path / name) as writer:
            writer.write(array, subifds=1, tile=(16, 16), photometric="minisblack", **options)
            writer.write(array[:, ::2, ::2], subfiletype=1, tile=(16, 16), photometric="minisblack", metadata=None)
        stack = open_stack(tmp_path / name)
        np.testing.assert_array_equal(frames(stack, Window(0, 0, 64, 48)), array)


def test_pages_of_different_kinds_are_refused(tmp_path):
    with tifffile.TiffWriter(tmp_path / "mixed.tif") as writer:
        for side in (20, 20, 30):
            writer.write(noise("uint8", side, side), metadata=None, photometric="minisblack")
    with pytest.raises(ImageFileError, match="holds 2 series of images; one series a file is needed; save the wanted one as a file"):
        open_stack(tmp_path / "mixed.tif")


def test_volumes_in_one_page_are_refused(tmp_path):
    path = saved(tmp_path, noise("uint8", 2, 32, 32, 32), volumetric=True, tile=(16, 16, 16), metadata=None)
    with pytest.raises(ImageFileError, match="holds volumes or images stored in pieces; one page per image is needed"):
        open_stack(path)


def test_file_whose_description_claims_more_images_than_it_has_is_refused(tmp_path):
    path = saved(tmp_path, noise("uint16", 5, 20, 24), imagej=True, metadata={"axes": "ZYX"})
    content = path.read_bytes()
    (tmp_path / "short.tif").write_bytes(content.replace(b"images=5", b"images=9").replace(b"slices=5", b"slices=9"))
    with pytest.raises(ImageFileError, match="it is shorter than ImageJ's description of it"):
        open_stack(tmp_path / "short.tif")


def test_truncated_stack_is_refused_at_opening(tmp_path):
    for name, options in (
        ("plain.tif", {"metadata": None}),
        ("imagej.tif", {"imagej": True, "metadata": {"axes": "ZYX"}}),
        ("some.ome.tif", {"metadata": {"axes": "ZYX"}, "tile": (16, 16)}),
        ("packed.tif", {"compression": "zlib", "metadata": None}),
        ("virtual.tif", {"truncate": True}),
    ):
        path = saved(tmp_path, noise("uint16", 5, 20, 24), name, **options)
        content = path.read_bytes()
        for share in (0.5, 0.9):
            path.write_bytes(content[: int(len(content) * share)])
            with pytest.raises(ImageFileError, match="truncated or corrupt"):
                open_stack(path)


def test_stack_that_claims_more_planes_than_fit_is_refused(tmp_path):
    path = tmp_path / "stack.tif"
    description = json.dumps({"shape": [7, 20, 24], "truncated": True})
    tifffile.imwrite(path, noise("uint16", 20, 24), description=description, metadata=None, photometric="minisblack")
    with pytest.raises(ImageFileError, match="7 images do not fit into it"):
        open_stack(path)


def ome_description(**attributes: object) -> str:
    given = {"SizeX": 24, "SizeY": 20, "SizeZ": 3, "SizeC": 1, "SizeT": 1, "Type": "uint8", "DimensionOrder": "XYZCT"} | attributes
    inner = given.pop("inner", '<TiffData IFD="0" PlaneCount="3"/>')
    pixels = " ".join(f'{name}="{value}"' for name, value in given.items())
    schema = "http://www.openmicroscopy.org/Schemas/OME/2016-06"
    return f'<?xml version="1.0"?><OME xmlns="{schema}"><Image><Pixels {pixels}>{inner}</Pixels></Image></OME>'


def ome_file(folder, n_pages=3, **attributes):
    path = folder / "some.ome.tif"
    with tifffile.TiffWriter(path) as writer:
        for number in range(n_pages):
            description = ome_description(**attributes) if number == 0 else None
            writer.write(noise("uint8", 20, 24), description=description, metadata=None, contiguous=False)
    return path


def test_hand_written_ome_description_is_followed(tmp_path):
    assert open_stack(ome_file(tmp_path)).n_images == 3


def test_planes_that_an_ome_description_promises_and_the_file_lacks_are_refused(tmp_path):
    path = ome_file(tmp_path, SizeZ=5, inner='<TiffData IFD="0" PlaneCount="5"/>')
    with pytest.raises(ImageFileError, match="image 4 of 5 is missing"):
        open_stack(path)


def test_ome_description_that_tells_of_other_files_is_refused_and_they_are_not_opened(tmp_path):
    tifffile.imwrite(tmp_path / "other.ome.tif", noise("uint8", 20, 24))
    inner = '<TiffData IFD="0"><UUID FileName="other.ome.tif">urn:uuid:1</UUID></TiffData>'
    path = ome_file(tmp_path, inner=inner)
    with pytest.raises(ImageFileError, match="holds OME metadata that do not fit its pages or tell of other files; one complete OME-TIFF"):
        open_stack(path)
    assert open_stack(path, axes="ZYX").sources == (path,)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"SizeZ": 10**9}, "claims 1000000000 planes"),
        ({"SizeZ": 0}, "claims 0 planes"),
        ({"SizeZ": "x"}, "gives no sound size"),
        ({"inner": '<TiffData IFD="0" PlaneCount="99999999999"/>'}, "in 99999999999 pieces"),
        ({"inner": '<TiffData IFD="-5"/>'}, "claims 3 planes"),
    ],
)
def test_absurd_counts_in_ome_descriptions_are_refused_before_memory_is_taken(tmp_path, attributes, reason):
    with pytest.raises(ImageFileError, match=reason):
        open_stack(ome_file(tmp_path, **attributes))


def test_page_of_another_kind_in_the_middle_is_refused(tmp_path):
    path = tmp_path / "some.ome.tif"
    with tifffile.TiffWriter(path) as writer:
        for number, side in enumerate((20, 30, 20)):
            description = ome_description() if number == 0 else None
            writer.write(noise("uint8", side, 24), description=description, metadata=None, contiguous=False)
    with pytest.raises(ImageFileError, match="page 2 is not of the same kind as the others"):
        open_stack(path)


def test_circle_of_pages_is_refused_at_once(tmp_path):
    path = tmp_path / "circle.tif"
    with tifffile.TiffWriter(path) as writer:
        for _ in range(150):
            writer.write(np.zeros((4, 4), np.uint8), metadata=None, contiguous=False, photometric="minisblack")
    with tifffile.TiffFile(path) as file:
        second, end = file.pages[1].offset, file.pages.next_page_offset
    with path.open("r+b") as stream:
        stream.seek(end)
        stream.write(second.to_bytes(4, "little"))
    started = time.thread_time()
    with pytest.raises(ImageFileError, match="its pages run in a circle after page 150"):
        open_stack(path)
    assert time.thread_time() - started < 5  # seconds; tifffile itself goes round for ever


def test_too_many_pages_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("qmcif_engine.io.tiff.tiff_checks.MAX_PLANES", 4)
    path = saved(tmp_path, noise("uint8", 5, 20, 24), metadata=None)
    with pytest.raises(ImageFileError, match="holds too many pages; at most 4 is needed; split the file"):
        open_stack(path)


def test_chain_that_leaves_the_file_is_refused(tmp_path):
    path = saved(tmp_path, noise("uint8", 3, 20, 24), metadata=None)
    with tifffile.TiffFile(path) as file:
        end = file.pages.next_page_offset
    with path.open("r+b") as stream:
        stream.seek(end)
        stream.write((2**31).to_bytes(4, "little"))
    with pytest.raises(ImageFileError, match="the directory of page 4 lies behind the end of the file"):
        open_stack(path)


def test_enormous_pages_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("qmcif_engine.io.tiff.tiff_source.MAX_WINDOWED_PIXELS", 100)
    with pytest.raises(ImageFileError, match="24 x 20 pixels according to its header; an image of at most 100 pixels"):
        open_stack(saved(tmp_path, noise("uint8", 3, 20, 24)))


def test_pages_that_must_be_decoded_as_a_whole_have_the_limit_of_single_images(tmp_path, monkeypatch):
    monkeypatch.setattr("qmcif_engine.io.tiff.tiff_source.MAX_PIXELS", 100)
    open_stack(saved(tmp_path, noise("uint8", 3, 20, 24)))
    with pytest.raises(ImageFileError, match="an image of at most 100 pixels"):
        open_stack(saved(tmp_path, noise("uint8", 3, 20, 24), extratags=[(274, 3, 1, 6, True)]))


def test_file_without_a_page_is_refused(tmp_path):
    (tmp_path / "empty.tif").write_bytes(b"II*\0\0\0\0\0")
    with pytest.raises(ImageFileError, match="truncated or corrupt"):
        open_stack(tmp_path / "empty.tif")


def test_pages_without_pixels_are_refused(tmp_path):
    path = saved(tmp_path, noise("uint8", 2, 20, 24), metadata=None)
    with tifffile.TiffFile(path, mode="r+b") as file:
        for page in file.pages:
            page.tags["ImageWidth"].overwrite(0)
    with pytest.raises((InvalidImageError, ImageFileError), match=r"(X 0 x S 1|pages without pixels); at least one sample is needed"):
        open_stack(path)  # some versions of tifffile list such pages, others do not


def test_files_of_one_plane_each_with_the_description_of_the_whole_set_are_a_stack(tmp_path):
    inner = "".join(f'<TiffData FirstZ="{z}"><UUID FileName="{z}.tif">urn:uuid:{z}</UUID></TiffData>' for z in range(3))
    description = ome_description(inner='<Channel Name="a"/><Channel Name="b"/>' + inner, PhysicalSizeX=0.5, PhysicalSizeY=0.5)
    array = noise("uint8", 3, 20, 24)
    for z in range(3):
        tifffile.imwrite(tmp_path / f"{z}.tif", array[z], description=description, metadata=None)
    stack = open_stack(tmp_path)
    np.testing.assert_array_equal(frames(stack), array)
    assert stack.metadata.pixel_size == (0.5, 0.5)
    assert stack.metadata.channel_names == ()  # two names, but one channel a file
