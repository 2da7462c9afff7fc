from __future__ import annotations

import errno
import os
import socket
import stat
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image

from qmcif_engine.errors import InvalidImageError, OutputError
from qmcif_engine.io.input.open import read_image
from qmcif_engine.io.output.formats import check_target, name_beside, write_image, write_images
from qmcif_engine.io.output.placement import check_maps_target, check_sources_kept, map_path, ready_folder
from qmcif_engine.stack.samples import SUPPORTED_DTYPES

SHAPE = (11, 14)
JPEG_TOLERANCE = 12  # levels; smooth pictures at quality 95
LOSSLESS = [
    (".png", "uint8"),
    (".png", "uint16"),
    *((suffix, kind) for suffix in (".tif", ".tiff") for kind in ("uint8", "uint16", "float32", "float64")),
]


def picture(dtype: str, *, is_color: bool = True) -> np.ndarray:
    """Noise over the whole range of the type; floats beyond 0 to 1 too, since they are never clipped."""
    generator = np.random.default_rng(3)
    shape = (*SHAPE, 3) if is_color else SHAPE
    if dtype.startswith("u"):
        return generator.integers(0, np.iinfo(dtype).max, shape, dtype=dtype, endpoint=True)
    return generator.normal(0, 1e3, shape).astype(dtype)


def assert_nothing_else(folder: Path, *expected: str) -> None:
    assert sorted(path.name for path in folder.iterdir()) == sorted(expected)


def refusal(error: type[Exception], call, *arguments, **options) -> str:
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def fail_with(error: BaseException):
    def fail(*_args, **_options):
        raise error

    return fail


@pytest.mark.parametrize(("suffix", "dtype"), LOSSLESS)
@pytest.mark.parametrize("is_color", [False, True])
@pytest.mark.parametrize("has_alpha", [False, True])
def test_lossless_formats_return_what_was_written(tmp_path, suffix, dtype, is_color, has_alpha):
    samples = picture(dtype, is_color=is_color)
    alpha = picture(dtype, is_color=False)[::-1] if has_alpha else None
    write_image(tmp_path / f"image{suffix}", samples, alpha=alpha)
    image = read_image(tmp_path / f"image{suffix}")
    assert image.samples.dtype == samples.dtype
    np.testing.assert_array_equal(image.samples, samples)
    if has_alpha:
        assert image.alpha.dtype == samples.dtype
        np.testing.assert_array_equal(image.alpha, alpha)
    else:
        assert image.alpha is None
    assert_nothing_else(tmp_path, f"image{suffix}")


@pytest.mark.parametrize(("suffix", "is_color"), [(".jpg", False), (".jpeg", True), (".JPG", True)])
def test_jpeg_returns_nearly_what_was_written_with_full_color_resolution(tmp_path, suffix, is_color):
    rows, columns = np.mgrid[:40, :50]
    gray = (rows * 3 + columns * 2).astype(np.uint8)
    samples = np.dstack([gray, 255 - gray, gray // 2]) if is_color else gray
    write_image(tmp_path / f"image{suffix}", samples)
    assert np.abs(read_image(tmp_path / f"image{suffix}").samples.astype(int) - samples).max() <= JPEG_TOLERANCE
    with Image.open(tmp_path / f"image{suffix}") as image:
        assert {(horizontal, vertical) for _, horizontal, vertical, _ in image.layer} == {(1, 1)}


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize(("is_color", "has_alpha"), [(False, False), (True, False), (False, True), (True, True)])
def test_tiff_says_what_its_channels_are(tmp_path, dtype, is_color, has_alpha):
    alpha = picture(dtype, is_color=False) if has_alpha else None
    write_image(tmp_path / "image.tif", picture(dtype, is_color=is_color), alpha=alpha)
    with tifffile.TiffFile(tmp_path / "image.tif") as file:
        page = file.pages.first
        assert len(file.pages) == 1
        assert page.photometric == (tifffile.PHOTOMETRIC.RGB if is_color else tifffile.PHOTOMETRIC.MINISBLACK)
        assert tuple(page.extrasamples) == ((tifffile.EXTRASAMPLE.UNASSALPHA,) if has_alpha else ())
        assert page.compression == tifffile.COMPRESSION.ADOBE_DEFLATE
        assert page.planarconfig == tifffile.PLANARCONFIG.CONTIG
        assert not {"DateTime", "Software", "DocumentName", "ImageDescription"} & {tag.name for tag in page.tags}


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (7, 1), (2, 3), (3, 3), (4, 4)])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_tiny_images_are_not_mistaken_for_channels_or_pages(tmp_path, size, suffix):
    for shape in (size, (*size, 3)):
        samples = np.arange(np.prod(shape), dtype=np.uint16).reshape(shape)
        for alpha in (None, np.arange(np.prod(size), dtype=np.uint16).reshape(size)):
            write_image(tmp_path / f"image{suffix}", samples, alpha=alpha, overwrite=True)
            image = read_image(tmp_path / f"image{suffix}")
            np.testing.assert_array_equal(image.samples, samples)
            np.testing.assert_array_equal(image.alpha, alpha)


@pytest.mark.parametrize("suffix", [".png", ".tif", ".jpg"])
def test_the_bytes_depend_on_the_samples_alone(tmp_path, suffix, monkeypatch):
    """Not on memory layout, byte order, time or place."""
    samples = picture("uint8" if suffix == ".jpg" else "uint16")
    (tmp_path / "elsewhere").mkdir()
    write_image(tmp_path / f"one{suffix}", samples)
    monkeypatch.setattr("time.time", lambda: 2e9)
    write_image(tmp_path / "elsewhere" / f"two{suffix}", np.asfortranarray(samples.astype(samples.dtype.newbyteorder(">")))[::-1][::-1])
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / "elsewhere" / f"two{suffix}").read_bytes()


def test_written_file_has_ordinary_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        write_image(tmp_path / "image.png", picture("uint8"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "image.png").stat().st_mode) == 0o640


@pytest.mark.parametrize("is_link", [False, True])
def test_existing_files_and_links_are_replaced_only_when_asked(tmp_path, is_link):
    target = tmp_path / "image.png"
    if is_link:
        target.symlink_to(tmp_path / "nowhere")
    else:
        target.write_bytes(b"precious")
    message = refusal(OutputError, write_image, target, picture("uint8"))
    assert "image.png' exists already; a new name is needed; choose another one or allow overwriting (overwrite=True, " in message
    assert is_link or target.read_bytes() == b"precious"
    write_image(target, picture("uint8"), overwrite=True)
    np.testing.assert_array_equal(read_image(target).samples, picture("uint8"))
    assert_nothing_else(tmp_path, "image.png")


@pytest.mark.parametrize("has_hard_links", [True, False])
def test_file_that_appears_while_writing_is_not_replaced(tmp_path, monkeypatch, has_hard_links):
    def rival(_descriptor):
        (tmp_path / "image.png").write_bytes(b"rival")

    monkeypatch.setattr(os, "fsync", rival)
    if not has_hard_links:
        monkeypatch.setattr(os, "link", fail_with(OSError(errno.EPERM, "no hard links here")))
    assert "exists already" in refusal(OutputError, write_image, tmp_path / "image.png", picture("uint8"))
    assert (tmp_path / "image.png").read_bytes() == b"rival"
    assert_nothing_else(tmp_path, "image.png")


def test_file_systems_without_hard_links_are_written_too(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", fail_with(OSError(errno.EPERM, "no hard links here")))
    write_image(tmp_path / "image.png", picture("uint8"))
    np.testing.assert_array_equal(read_image(tmp_path / "image.png").samples, picture("uint8"))
    assert_nothing_else(tmp_path, "image.png")


@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("call", ["fsync", "link", "link without hard links"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=type)
def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch, old, call, error):
    target = tmp_path / "image.png"
    if old is not None:
        target.write_bytes(old)
    monkeypatch.setattr(os, call.split()[0], fail_with(OSError(errno.EPERM, "no links") if " " in call else error))
    if call != "fsync":
        monkeypatch.setattr(Path, "replace", fail_with(error))
    with pytest.raises((KeyboardInterrupt, OutputError)) as caught:
        write_image(target, picture("uint8"), overwrite=old is not None)
    if isinstance(error, OSError):
        expected = "image.png' cannot be written (No space left on device); a writable place with room is needed; choose another one"
        assert str(caught.value).endswith(expected)
        assert caught.value.errno == errno.ENOSPC
    assert_nothing_else(tmp_path, *([] if old is None else ["image.png"]))
    assert old is None or target.read_bytes() == old


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_disk_that_fills_up_while_encoding_is_reported(tmp_path, monkeypatch):
    ordinary = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode: ordinary(Path("/dev/full"), "wb") if mode == "x+b" else ordinary(self, mode))
    with pytest.raises(OutputError, match="No space left on device"):
        write_image(tmp_path / "image.png", picture("uint8"))
    assert_nothing_else(tmp_path)


@pytest.mark.parametrize("name", ["image", "image.gif", "image.png.bak", "png"])
def test_unknown_suffix_is_refused(tmp_path, name):
    message = refusal(OutputError, check_target, tmp_path / name, overwrite=False)
    assert "has the suffix" in message
    assert "one of .png, .jpg, .jpeg, .tif, .tiff, .ome.tif, .ome.tiff, .ome.zarr, .zarr is needed; rename the target" in message
    assert refusal(OutputError, write_image, tmp_path / name, picture("uint8")) == message


@pytest.mark.parametrize(
    ("suffix", "dtype", "reason"),
    [
        (".png", "float32", "float32 samples; PNG holds uint8, uint16; use .tif"),
        (".png", "float64", "float64 samples; PNG holds uint8, uint16; use .tif"),
        (".jpg", "uint16", "uint16 samples; JPEG holds uint8; use .png or .tif"),
        (".jpg", "float32", "float32 samples; JPEG holds uint8; use .tif"),
        (".tif", "int32", f"int32 samples; TIFF holds {', '.join(SUPPORTED_DTYPES)}; convert the samples to one of these"),
        (".png", "bool", "bool samples; PNG holds uint8, uint16; use .tif"),
    ],
)
def test_sample_types_a_format_cannot_hold_are_refused_before_and_while_writing(tmp_path, suffix, dtype, reason):
    target = tmp_path / f"image{suffix}"
    message = refusal(OutputError, check_target, target, overwrite=False, samples_dtype=dtype)
    assert message == f"{str(target)!r} would have to hold {reason}"
    assert refusal(OutputError, write_image, target, np.zeros(SHAPE, dtype)) == message
    assert_nothing_else(tmp_path)


def test_alpha_is_refused_where_the_format_has_none(tmp_path):
    target = tmp_path / "image.jpg"
    message = refusal(OutputError, check_target, target, overwrite=False, has_alpha=True)
    assert message.endswith("would have to hold alpha; JPEG has none; use .png or .tif")
    assert refusal(OutputError, write_image, target, picture("uint8"), alpha=picture("uint8", is_color=False)) == message


def test_sides_longer_than_a_format_allows_are_refused(tmp_path):
    message = refusal(OutputError, write_image, tmp_path / "image.jpg", np.zeros((1, 65501), np.uint8))
    assert message.endswith("would have a side of 65501 pixels; JPEG holds at most 65500; use .png or .tif")
    message = refusal(OutputError, write_image, tmp_path / "image.png", np.zeros((1_000_001, 1), np.uint8))
    assert message.endswith("would have a side of 1000001 pixels; PNG holds at most 1000000; use .tif")
    assert_nothing_else(tmp_path)


@pytest.mark.parametrize(("suffix", "side_px"), [(".jpg", 65500), (".png", 1_000_000)])
def test_longest_sides_a_format_allows_are_written_and_read(tmp_path, suffix, side_px):
    write_image(tmp_path / f"image{suffix}", np.zeros((1, side_px), np.uint8))
    assert read_image(tmp_path / f"image{suffix}").samples.shape == (1, side_px)


@pytest.mark.parametrize("shape", [(4,), (4, 5, 4), (4, 5, 1), (2, 4, 5, 3), (0, 5), (4, 0, 3)])
def test_arrays_that_are_no_image_are_refused(tmp_path, shape):
    message = refusal(InvalidImageError, write_image, tmp_path / "image.tif", np.zeros(shape, np.uint8))
    assert f"an array of shape {shape} was to be written; (H, W) or (H, W, 3) without empty sides is needed" in message


@pytest.mark.parametrize(("shape", "dtype"), [((4, 6), "uint8"), ((4, 5, 1), "uint8"), ((4, 5), "uint16")])
def test_alpha_that_does_not_fit_the_samples_is_refused(tmp_path, shape, dtype):
    message = refusal(InvalidImageError, write_image, tmp_path / "image.tif", np.zeros((4, 5, 3), np.uint8), alpha=np.zeros(shape, dtype))
    assert f"alpha of shape {shape} and type {dtype} was to be written; (4, 5) and uint8 as in the samples is needed" in message


def test_good_target_passes_and_is_not_touched(tmp_path):
    check_target(tmp_path / "image.png", overwrite=False, samples_dtype=np.uint16, has_alpha=True)
    assert_nothing_else(tmp_path)
    (tmp_path / "old.tif").write_bytes(b"old")
    check_target(str(tmp_path / "old.tif"), overwrite=True, samples_dtype=np.float32)
    assert (tmp_path / "old.tif").read_bytes() == b"old"
    assert_nothing_else(tmp_path, "old.tif")


def test_target_without_a_folder_part_is_written_here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_image("image.png", picture("uint8"))
    assert_nothing_else(tmp_path, "image.png")


@pytest.fixture
def places(tmp_path, monkeypatch):
    """The working folder, with files of every kind in it."""
    monkeypatch.chdir(tmp_path)
    Path("old.png").write_bytes(b"")
    Path("folder.png").mkdir()
    os.mkfifo("pipe.png")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.png")


@pytest.mark.parametrize(
    ("target", "overwrite", "words"),
    [
        ("old.png", False, "exists already; a new name is needed"),
        ("none/image.png", False, "the folder 'none' does not exist; an existing folder is needed; make it or choose another one"),
        ("old.png/image.png", False, "old.png' is not a folder; an existing folder is needed"),
        ("folder.png", False, "is a folder; the name of a file is needed; add one to it"),
        ("folder.png", True, "is a folder; the name of a file is needed; add one to it"),
        ("pipe.png", True, "is a pipe, socket or device; the name of a file is needed; choose another one"),
        ("socket.png", True, "is a pipe, socket or device; the name of a file is needed; choose another one"),
        ("a\0b.png", False, "is not a possible file name ("),
        ("a" * 300 + ".png", False, "cannot be written (File name too long)"),
        # refuses files even from the administrator
        ("/proc/image.png", False, "'/proc' cannot be written ("),
    ],
)
def test_places_that_cannot_be_written_are_refused_beforehand(places, target, overwrite, words):
    assert words in refusal(OutputError, check_target, target, overwrite=overwrite)


MAPS = {"source_index": np.arange(20, dtype=np.uint16).reshape(4, 5), "confidence": np.linspace(0, 1, 20, dtype=np.float32).reshape(4, 5)}


def write_maps(folder: Path, maps: dict[str, np.ndarray], *, overwrite: bool = False) -> None:
    """Maps by themselves, written as those of a picture are."""
    check_maps_target(folder, maps, overwrite=overwrite)
    with ready_folder(folder):
        write_images({map_path(folder, name): samples for name, samples in maps.items()}, overwrite=overwrite)


def assert_maps(folder: Path) -> None:
    assert_nothing_else(folder, "source_index.tif", "confidence.tif")
    for name, samples in MAPS.items():
        np.testing.assert_array_equal(read_image(folder / f"{name}.tif").samples, samples)


@pytest.mark.parametrize("folder", ["maps", "."])
def test_maps_appear_in_a_new_or_an_existing_folder(tmp_path, folder):
    check_maps_target(tmp_path / folder, MAPS, overwrite=False)
    assert_nothing_else(tmp_path)
    write_maps(tmp_path / folder, MAPS)
    assert_maps(tmp_path / folder)


def test_existing_maps_are_replaced_only_when_asked(tmp_path):
    (tmp_path / "confidence.tif").write_bytes(b"precious")
    expected = "confidence.tif' exists already; a new name is needed"
    assert expected in refusal(OutputError, check_maps_target, tmp_path, MAPS, overwrite=False)
    assert expected in refusal(OutputError, write_maps, tmp_path, MAPS)
    assert (tmp_path / "confidence.tif").read_bytes() == b"precious"
    assert_nothing_else(tmp_path, "confidence.tif")
    check_maps_target(tmp_path, MAPS, overwrite=True)
    write_maps(tmp_path, MAPS, overwrite=True)
    assert_maps(tmp_path)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
@pytest.mark.parametrize("is_late", [False, True])
def test_failure_while_moving_maps_removes_those_already_moved(tmp_path, monkeypatch, error, is_late):
    """Late: the second move took place, but failed afterwards, as an interrupt may."""
    ordinary = os.link
    calls = []

    def fail_second(source, target, **options):
        calls.append(1)
        if len(calls) == 1 or is_late:
            ordinary(source, target, **options)
        if len(calls) == 2:
            raise error

    monkeypatch.setattr(os, "link", fail_second)
    with pytest.raises((KeyboardInterrupt, OutputError)):
        write_maps(tmp_path / "maps", MAPS)
    assert_nothing_else(tmp_path)


def test_failure_while_moving_maps_keeps_foreign_files(tmp_path, monkeypatch):
    """A file that another program put there while the maps were written is not ours to remove."""
    ordinary = os.link

    def rival(source, target, **options):
        if Path(target).name == "confidence.tif":
            Path(target).write_bytes(b"rival")
        ordinary(source, target, **options)

    monkeypatch.setattr(os, "link", rival)
    assert "confidence.tif' exists already" in refusal(OutputError, write_maps, tmp_path / "maps", MAPS)
    assert_nothing_else(tmp_path / "maps", "confidence.tif")
    assert (tmp_path / "maps" / "confidence.tif").read_bytes() == b"rival"


def test_failure_while_replacing_maps_keeps_those_that_were_there(tmp_path, monkeypatch):
    (tmp_path / "source_index.tif").write_bytes(b"old")
    ordinary = Path.replace

    def fail_for_confidence(self, target):
        if target.name == "confidence.tif":
            raise KeyboardInterrupt
        return ordinary(self, target)

    monkeypatch.setattr(Path, "replace", fail_for_confidence)
    with pytest.raises(KeyboardInterrupt):
        write_maps(tmp_path, MAPS, overwrite=True)
    assert_nothing_else(tmp_path, "source_index.tif")


def test_bad_map_is_refused_before_anything_is_made(tmp_path):
    message = refusal(OutputError, write_maps, tmp_path / "maps", MAPS | {"mask": np.zeros((4, 5), np.int64)})
    assert "mask.tif' would have to hold int64 samples" in message
    assert "an array of shape (3,) was to be written" in refusal(
        InvalidImageError, write_maps, tmp_path / "maps", {"line": np.zeros(3, np.uint8)}
    )
    assert_nothing_else(tmp_path)


@pytest.mark.parametrize("name", ["", ".", "..", "../escape", "a/b", "/etc/map", "a\0b", "a.tif"])
def test_map_names_that_lead_elsewhere_are_refused(tmp_path, name):
    message = refusal(OutputError, check_maps_target, tmp_path / "maps", [name], overwrite=False)
    assert message == f"a map was named {name!r}; letters, digits and underscores are needed; rename it"


def test_map_folders_that_cannot_be_are_refused_beforehand(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    names = ["confidence"]
    for overwrite in (False, True):
        assert "file' is not a folder" in refusal(OutputError, check_maps_target, tmp_path / "file", names, overwrite=overwrite)
    assert "none' does not exist" in refusal(OutputError, check_maps_target, tmp_path / "none" / "maps", names, overwrite=False)
    assert "is not a possible file name" in refusal(OutputError, check_maps_target, tmp_path / "a\0b", names, overwrite=False)
    (tmp_path / "confidence.tif").mkdir()
    assert "is a folder; the name of a file is needed" in refusal(OutputError, check_maps_target, tmp_path, names, overwrite=True)


def test_folder_that_cannot_be_made_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "mkdir", fail_with(PermissionError(errno.EACCES, "Permission denied")))
    assert "maps' cannot be written (Permission denied)" in refusal(OutputError, write_maps, tmp_path / "maps", MAPS)
    assert_nothing_else(tmp_path)


def test_the_clash_of_picture_and_map_is_known_beforehand(tmp_path: Path) -> None:
    (tmp_path / "loop.tif").symlink_to("loop.tif")
    check_maps_target(tmp_path, ["index"], overwrite=False, image=tmp_path / "loop.tif")

    with pytest.raises(OutputError, match="is the name of a map too; a name of its own is needed"):
        check_maps_target(tmp_path, ["index"], overwrite=False, image=tmp_path / "elsewhere" / ".." / "index.tif")
    with pytest.raises(OutputError, match="would have the maps inside; a name of its own is needed for the image"):
        check_maps_target(tmp_path / "p.ome.zarr" / "maps", ["index"], overwrite=True, image=tmp_path / "p.ome.zarr")


def test_a_target_that_is_a_source_is_found_under_any_name(tmp_path: Path) -> None:
    source = tmp_path / "a.png"
    source.write_bytes(b"precious")
    (tmp_path / "link.png").symlink_to(source)
    check_sources_kept([tmp_path / "b.png", tmp_path / "a\0b.png"], [source, tmp_path / "none.png"])

    for name in ("a.png", "link.png", "../" + tmp_path.name + "/a.png"):
        with pytest.raises(OutputError, match=r"is the input '.*a.png', which would be lost; another name is needed"):
            check_sources_kept([tmp_path / "b.png", tmp_path / name], [tmp_path / "none.png", source])


def test_folders_made_for_a_failing_block_are_taken_away_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(FileExistsError), ready_folder(tmp_path / "old" / "new" / "newer"):
        (tmp_path / "old" / "new" / "newer").mkdir()

    assert_nothing_else(tmp_path, "old")
    assert_nothing_else(tmp_path / "old")


@pytest.mark.parametrize("name", ["a.ome.tif", "a.ome.zarr"])
def test_pixel_size_and_provenance_go_with_the_image(tmp_path, name):
    write_image(tmp_path / name, np.zeros((12, 14), np.uint8), pixel_size=(0.5, 0.25), unit="micrometer", provenance={"version": "1"})

    if name == "a.ome.zarr":
        described = (tmp_path / name / "zarr.json").read_text()
        assert '"unit": "micrometer"' in described
        assert "0.25" in described
    else:
        with tifffile.TiffFile(tmp_path / name) as file:
            described = file.pages[0].description
        assert 'PhysicalSizeY="0.5"' in described
        assert 'PhysicalSizeX="0.25"' in described
    assert "qmcif" in described


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.ome.tif", "a_t2.ome.tif"), ("a.OME.TIF", "a_t2.OME.TIF"), ("a.ome.zarr", "a_t2.ome.zarr"), ("a.b.tif", "a.b_t2.tif")],
)
def test_an_output_is_named_beside_another_in_its_format(name, expected):
    assert name_beside(Path("d") / name, "_t2") == Path("d") / expected
