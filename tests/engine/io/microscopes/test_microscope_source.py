"""Files of microscopes that the tests write themselves: CZI by the maker's library, LIF byte by byte."""

from __future__ import annotations

import pickle
import struct
import sys

import numpy as np
import pytest
import tifffile

from qmcif_engine import fuse, open_stack
from qmcif_engine.cli import main
from qmcif_engine.errors import ImageFileError, InvalidConfigError, InvalidImageError, MissingExtraError
from qmcif_engine.stack.window import Window

czi = pytest.importorskip("pylibCZIrw.czi", reason="the extra microscopes is not installed")
pytest.importorskip("liffile")

WHOLE = Window(0, 0, 40, 48)
PART = Window(3, 5, 31, 40)


def noise(dtype, *shape):
    return (np.random.default_rng(len(shape)).random(shape) * 250).astype(dtype)


def save_czi(folder, scenes, name="cells.czi", *, leave_out=()):
    """Write scenes of shape (Z, C, Y, X) or (Z, C, Y, X, 3), side by side."""
    path = folder / name
    with czi.create_czi(str(path)) as file:
        for scene, volume in enumerate(scenes):
            for z, channels in enumerate(volume):
                for channel, plane in enumerate(channels):
                    if (scene, z, channel) not in leave_out:
                        samples = plane[..., ::-1] if plane.ndim == 3 else plane[..., np.newaxis]
                        place = {"Z": z, "C": channel, "T": 0}
                        file.write(np.ascontiguousarray(samples), location=(100 * scene, 7), plane=place, scene=scene)
        file.write_metadata(channel_names={0: "DAPI", 1: "GFP"}, scale_x=2e-7, scale_y=1e-7, scale_z=5e-7)
    return path


def save_lif(folder, series, name="cells.lif"):
    """Write series of shape (Z, C, Y, X) by name, as Leica lays them out: XML in UTF-16, then a block of samples for each."""
    elements, blocks = "", b""
    for number, (title, volume) in enumerate(series.items()):
        n_z, n_channels, height, width = volume.shape
        item = volume.itemsize
        channels = "".join(
            f'<ChannelDescription DataType="0" ChannelTag="0" NameOfMeasuredQuantity="" Min="0" Max="255" Unit="" '
            f'IsLUTInverted="0" Resolution="{8 * item - 4 * (item > 1)}" LUTName="{color}" '
            f'BytesInc="{place * height * width * item}" BitInc="0"/>'
            for place, color in zip(range(n_channels), ("Green", "Red"), strict=False)
        )
        steps = [(1, width, item, 2e-7), (2, height, width * item, 1e-7), (3, n_z, n_channels * height * width * item, 5e-7)]
        sides = "".join(
            f'<DimensionDescription DimID="{axis}" NumberOfElements="{length}" Origin="0" Length="{step * (length - 1)}" Unit="m" '
            f'BitInc="0" BytesInc="{stride}"/>'
            for axis, length, stride, step in steps
        )
        elements += (
            f'<Element Name="{title}" UniqueID="{number}"><Data><Image TextDescription=""><ImageDescription><Channels>{channels}</Channels>'
            f"<Dimensions>{sides}</Dimensions></ImageDescription></Image></Data>"
            f'<Memory Size="{volume.nbytes}" MemoryBlockID="MemBlock_{number}"/><Children/></Element>'
        )
        label = f"MemBlock_{number}".encode("utf-16-le")
        head = b"\x2a" + struct.pack("<Q", volume.nbytes) + b"\x2a" + struct.pack("<I", len(label) // 2) + label
        blocks += struct.pack("<II", 0x70, len(head)) + head + volume.tobytes()
    text = (
        f'<LMSDataContainerHeader Version="2"><Element Name="project" UniqueID="p"><Data><Experiment Path="" IsSavedFlag="1"/></Data>'
        f'<Memory Size="0" MemoryBlockID="MemBlock_p"/><Children>{elements}</Children></Element></LMSDataContainerHeader>'
    ).encode("utf-16-le")
    head = b"\x2a" + struct.pack("<I", len(text) // 2) + text
    path = folder / name
    path.write_bytes(struct.pack("<II", 0x70, len(head)) + head + blocks)
    return path


VOLUME = noise("uint8", 3, 2, 40, 48)


@pytest.fixture(params=["czi", "lif"])
def two_images(request, tmp_path):
    """A file of two images, the second of which is `VOLUME`."""
    other = VOLUME[:, :, ::-1].copy()
    return save_czi(tmp_path, [other, VOLUME]) if request.param == "czi" else save_lif(tmp_path, {"first": other, "second": VOLUME})


def frames(stack, window=WHOLE):
    return np.stack([stack.read(number, window) for number in range(stack.n_images)])


def test_windows_and_metadata_are_those_of_the_file(two_images):
    stack = open_stack(two_images, image=2)
    assert (stack.n_images, stack.image_shape, stack.dtype, stack.n_separate_channels) == (3, (40, 48, 3), np.uint8, 2)
    np.testing.assert_array_equal(frames(stack, PART)[..., :2], np.moveaxis(VOLUME, 1, -1)[:, 3:31, 5:40])
    metadata = stack.metadata
    assert metadata.pixel_size == pytest.approx((0.1, 0.2))
    assert (metadata.z_step, metadata.unit) == (pytest.approx(0.5), "micrometer")
    if two_images.suffix == ".czi":
        assert metadata.channel_names == ("DAPI", "GFP")
    else:
        assert metadata.channel_colors == ("#00ff00", "#ff0000")


def test_several_images_are_listed_and_one_is_chosen_by_number_or_name(two_images, tmp_path, capsys):
    with pytest.raises(ImageFileError, match=r"holds 2 images .*; one of them is needed; choose it by number or name with --image"):
        open_stack(two_images)
    assert main(["fuse", str(two_images), "-o", str(tmp_path / "fused.ome.tif")]) == 2
    assert "choose it by number or name with --image" in capsys.readouterr().err
    with pytest.raises(InvalidConfigError, match="the image 3 was chosen"):
        open_stack(two_images, image=3)
    if two_images.suffix == ".lif":
        np.testing.assert_array_equal(frames(open_stack(two_images, image="second")), frames(open_stack(two_images, image=2)))


def test_command_line_fuses_the_chosen_image(two_images, tmp_path):
    target = tmp_path / "fused.ome.tif"
    assert main(["fuse", str(two_images), "--image", "2", "--channels", "1", "-o", str(target)]) == 0
    expected = fuse(list(VOLUME[:, 0]), companions=list(np.moveaxis(VOLUME, 1, -1))).companions
    np.testing.assert_array_equal(np.moveaxis(tifffile.imread(target), 0, -1), expected)


def test_stack_can_be_sent_to_another_process(two_images):
    stack = open_stack(two_images, image=2)
    np.testing.assert_array_equal(frames(pickle.loads(pickle.dumps(stack))), frames(stack))


@pytest.mark.parametrize("kind", ["czi", "lif"])
@pytest.mark.parametrize("part", [0.02, 0.3, 0.6, 0.99])
def test_truncated_file_is_refused_without_a_traceback(tmp_path, capsys, kind, part):
    whole = save_czi(tmp_path, [VOLUME]) if kind == "czi" else save_lif(tmp_path, {"one": VOLUME})
    content = whole.read_bytes()
    cut = tmp_path / f"cut.{kind}"
    cut.write_bytes(content[: int(len(content) * part)])
    assert main(["fuse", str(cut), "-o", str(tmp_path / "fused.ome.tif")]) == 2
    message = capsys.readouterr().err
    assert str(cut) in message
    assert "Traceback" not in message


def test_header_that_promises_more_than_the_file_holds_is_refused(tmp_path):
    path = save_lif(tmp_path, {"one": VOLUME})
    content = path.read_bytes().decode("latin-1")
    number = "".join(f"{digit}\0" for digit in 'NumberOfElements="40"')
    larger = "".join(f"{digit}\0" for digit in 'NumberOfElements="99"')
    path.write_bytes(content.replace(number, larger).encode("latin-1"))
    with pytest.raises(ImageFileError, match="truncated or corrupt"):
        open_stack(path)


def test_planes_that_were_not_recorded_are_not_taken_for_black(tmp_path):
    path = save_czi(tmp_path, [VOLUME], leave_out={(0, 1, 1)})
    with pytest.raises(ImageFileError, match=r"holds 5 of 6 planes \(T 1, Z 3, C 2\) of this scene; each of them is needed"):
        open_stack(path)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_colors_of_a_czi_are_red_green_and_blue(tmp_path, dtype):
    colors = noise(dtype, 3, 1, 40, 48, 3)
    stack = open_stack(save_czi(tmp_path, [colors]))
    assert (stack.image_shape, stack.n_separate_channels) == ((40, 48, 3), 0)
    np.testing.assert_array_equal(frames(stack), colors[:, 0])


def test_bits_that_a_lif_uses_are_taken_over(tmp_path):
    stack = open_stack(save_lif(tmp_path, {"one": noise("uint16", 2, 1, 40, 48)}))
    assert (stack.dtype, stack.metadata.significant_bits) == (np.uint16, 12)


def test_axes_named_by_the_user_hold(two_images):
    stack = open_stack(two_images, image=1, axes="QCYX")
    assert (stack.n_images, stack.metadata.z_step) == (3, None)
    with pytest.raises(InvalidImageError, match="makes columns or samples others"):
        open_stack(two_images, image=1, axes="XCYZ")


@pytest.mark.parametrize(("kind", "library"), [("czi", "pylibCZIrw"), ("lif", "liffile"), ("nd2", "nd2")])
def test_without_the_extra_the_format_is_named_and_the_command_given(tmp_path, monkeypatch, capsys, kind, library):
    starts = {"czi": b"ZISRAWFILE", "lif": b"\x70\0\0\0\x10\0\0\0\x2a", "nd2": b"\xda\xce\xbe\x0a"}
    path = tmp_path / f"cells.{kind}"
    path.write_bytes(starts[kind] + bytes(100))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(
        MissingExtraError, match=rf"is a \w+ {kind.upper()} file; {library} is needed to read it; install it with: pip install"
    ):
        open_stack(path)
    assert main(["fuse", str(path), "-o", str(tmp_path / "fused.tif")]) == 2
    assert "pip install 'napari-qmcif[microscopes]'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["czi", "lif", "nd2"])
def test_file_that_only_begins_as_one_of_a_microscope_is_refused(tmp_path, kind):
    starts = {"czi": b"ZISRAWFILE", "lif": b"\x70\0\0\0\x10\0\0\0\x2a", "nd2": b"\xda\xce\xbe\x0a"}
    path = tmp_path / f"cells.{kind}"
    path.write_bytes(starts[kind] + bytes(200))
    with pytest.raises(ImageFileError, match="truncated or corrupt"):
        open_stack(path)


def test_other_programs_are_named_with_the_way_out(tmp_path):
    path = tmp_path / "cells.ims"
    path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    with pytest.raises(ImageFileError, match=r"what a program of Imaris wrote; .* export it as OME-TIFF, or convert it with bio"):
        open_stack(path)


def test_file_that_is_changed_after_it_was_opened_is_noticed(tmp_path):
    path = save_lif(tmp_path, {"one": VOLUME})
    stack = open_stack(path)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(ImageFileError, match="it was changed after it was opened"):
        stack.read(0, WHOLE)


def test_pieces_that_lie_millions_of_pixels_apart_are_refused(tmp_path):
    """A single damaged number in a small file makes a scene of half a gigapixel, nearly all of it black."""
    path = tmp_path / "far.czi"
    with czi.create_czi(str(path)) as file:
        for number, top in enumerate((0, 2**24)):
            for z in range(2):
                file.write(np.full((40, 48, 1), 50 + number, np.uint8), location=(0, top), plane={"Z": z, "C": 0, "T": 0})
    with pytest.raises(ImageFileError, match=r"pieces of 7680 pixels in a scene of \d+; a mosaic without such gaps is needed"):
        open_stack(path)
