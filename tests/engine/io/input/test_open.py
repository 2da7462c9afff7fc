from __future__ import annotations

import functools
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import imagecodecs
import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

from qmcif_engine.errors import ImageFileError, InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.stack import Stack
from qmcif_engine.stack.window import Window

WINDOW = Window(3, 5, 17, 20)
WHOLE = Window(0, 0, 20, 24)


def noise(*shape: int, dtype: str = "uint8") -> np.ndarray:
    return (np.random.default_rng(len(shape)).random(shape) * 250).astype(dtype)


def pictures(folder, images, suffix=".png", names=None):
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{names[number] if names else f'img{number}'}{suffix}")
    return folder


def frames(stack, window=WHOLE):
    return np.stack([stack.read(number, window) for number in range(stack.n_images)])


def test_folder_is_read_in_natural_order(tmp_path):
    images = noise(12, 20, 24, 3)
    stack = open_stack(pictures(tmp_path, images))
    assert isinstance(stack, Stack)
    assert stack.names[10] == repr(str(tmp_path / "img10.png"))
    assert stack.sources == tuple(tmp_path / f"img{number}.png" for number in range(12))
    np.testing.assert_array_equal(frames(stack, WINDOW), images[:, 3:17, 5:20])


def test_pattern_and_list_of_files_give_the_same_stack(tmp_path):
    images = noise(11, 20, 24)
    pictures(tmp_path, images)
    by_pattern = open_stack(str(tmp_path / "img*.png"))
    by_list = open_stack([tmp_path / f"img{number}.png" for number in range(11)])
    assert by_pattern.names == by_list.names
    np.testing.assert_array_equal(frames(by_pattern), images)
    np.testing.assert_array_equal(frames(by_list), images)


def test_frames_of_files_are_excluded_and_reordered_and_excluded_files_are_not_even_opened(tmp_path):
    images = noise(6, 20, 24)
    pictures(tmp_path, images)
    (tmp_path / "img3.png").write_bytes(b"broken")
    np.testing.assert_array_equal(frames(open_stack(tmp_path, exclude=[4, "img5*"])), images[[0, 1, 2, 4]])
    np.testing.assert_array_equal(frames(open_stack(tmp_path, exclude=[4], order="reversed")), images[[5, 4, 2, 1, 0]])


def test_frames_of_one_file_are_excluded_and_reordered(tmp_path):
    array = noise(5, 20, 24)
    tifffile.imwrite(tmp_path / "stack.tif", array, photometric="minisblack")
    stack = open_stack(tmp_path / "stack.tif", exclude=[2], order=[5, 1, 4, 3])
    assert stack.names[0] == f"image 5 of {str(tmp_path / 'stack.tif')!r}"
    np.testing.assert_array_equal(frames(stack), array[[4, 0, 3, 2]])


def test_turned_pictures_are_read_upright(tmp_path):
    images = noise(2, 20, 24, 3)
    exif = Image.Exif()
    exif[274] = 6
    for number in range(2):
        Image.fromarray(images[number]).save(tmp_path / f"{number}.png", exif=exif)
    stack = open_stack(tmp_path)
    assert stack.image_shape == (24, 20, 3)
    np.testing.assert_array_equal(stack.read(1, Window(1, 2, 20, 18)), np.rot90(images[1], -1)[1:20, 2:18])


def test_alpha_is_a_stack_of_its_own(tmp_path):
    images = noise(3, 20, 24, 4)
    stack = open_stack(pictures(tmp_path, images))
    np.testing.assert_array_equal(frames(stack), images[..., :3])
    assert stack.alpha is not None
    assert isinstance(stack.alpha, Stack)
    assert stack.alpha.image_shape == (20, 24)
    np.testing.assert_array_equal(frames(stack.alpha, WINDOW), images[:, 3:17, 5:20, 3])
    assert open_stack([image[..., :3] for image in images]).alpha is None


def test_alpha_in_some_files_only_is_refused(tmp_path):
    pictures(tmp_path, noise(2, 20, 24, 4))
    pictures(tmp_path, noise(1, 20, 24, 3), names=["opaque"])
    with pytest.raises(ImageFileError, match=r"opaque.png' has no alpha while others have; all or none is needed: add or remove the alpha"):
        open_stack(tmp_path)


@pytest.mark.parametrize(("other", "message"), [((20, 25, 3), r"\(20, 25, 3\)"), ((20, 24), r"\(20, 24\)")])
def test_images_of_different_shape_are_refused_by_name(tmp_path, other, message):
    pictures(tmp_path, [noise(20, 24, 3), noise(*other)])
    expected = rf"img0.png' has shape \(20, 24, 3\) and '.*img1.png' {message}; all must be equal: crop or align them first"
    with pytest.raises(InvalidImageError, match=expected):
        open_stack(tmp_path)


def test_images_of_different_type_are_refused_by_name(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", noise(20, 24))
    tifffile.imwrite(tmp_path / "b.tif", noise(20, 24, dtype="uint16"))
    with pytest.raises(InvalidImageError, match=r"a.tif' is uint8 and '.*b.tif' uint16; all must be of one type: convert them first"):
        open_stack(tmp_path)


def test_a_stack_among_several_files_is_refused(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", noise(20, 24))
    tifffile.imwrite(tmp_path / "b.tif", noise(3, 20, 24), photometric="minisblack")
    with pytest.raises(InvalidImageError, match=r"^'.*b.tif' holds 3 images; one image in each of several inputs is needed: pass it alone"):
        open_stack(tmp_path)


def test_one_image_is_refused(tmp_path):
    pictures(tmp_path, noise(1, 20, 24))
    with pytest.raises(InvalidImageError, match="1 image was given; at least 2 of one scene are needed: add the other focus positions"):
        open_stack(tmp_path)
    with pytest.raises(InvalidImageError, match="0 images were given"):
        open_stack([])


def test_a_file_of_one_image_is_not_advised_to_name_its_axes(tmp_path):
    tifffile.imwrite(tmp_path / "one.tif", noise(20, 24, 3), photometric="rgb")
    zarr.create_array(tmp_path / "one.zarr", data=noise(1, 20, 24))
    for name in ("one.tif", "one.zarr"):
        with pytest.raises(InvalidImageError, match=r"^1 image was given; at least 2 of one scene are needed"):
            open_stack(tmp_path / name)
    tifffile.imwrite(tmp_path / "dyes.ome.tif", noise(2, 20, 24), metadata={"axes": "CYX"}, photometric="minisblack")
    with pytest.raises(InvalidImageError, match="2 images along one axis other than C are needed: name the axes"):
        open_stack(tmp_path / "dyes.ome.tif")


opened_names: list[str] = []


def note_opened(event, details):
    if event == "open" and isinstance(details[0], (str, os.PathLike)):
        opened_names.append(os.path.basename(details[0]))  # noqa: PTH119 - of a string


@functools.cache
def note_all_opened():
    """Add the hook, which stays, to the interpreter once."""
    sys.addaudithook(note_opened)


@pytest.mark.parametrize("kind", ["png", "jpg", "plain.tif", "packed.tif", "turned.tif"])
def test_each_file_is_opened_once_to_describe_and_decode_it(tmp_path, kind):
    images, names = noise(3, 20, 24, 3), [f"{number}.{kind}" for number in range(3)]
    for name, image in zip(names, images, strict=True):
        if kind.endswith("tif"):
            turned = {"extratags": [(274, 3, 1, 6, True)]} if kind == "turned.tif" else {}
            tifffile.imwrite(tmp_path / name, image, photometric="rgb", compression="zlib" if kind == "packed.tif" else None, **turned)
        else:
            Image.fromarray(image).save(tmp_path / name)
    note_all_opened()
    opened_names.clear()

    with open_stack([tmp_path / name for name in names]) as stack:
        for number in range(3):
            stack.read(number, WINDOW)
            stack.read(number, WHOLE if kind != "turned.tif" else Window(0, 0, 24, 20))

    assert sorted(name for name in opened_names if name in names) == names


def test_complaints_of_decoders_are_not_printed(tmp_path):
    """A checksum of metadata is wrong: the picture is sound, and the decoder says so in its own words."""
    content = bytes(imagecodecs.png_encode(noise(20, 24)))
    for number in range(2):
        (tmp_path / f"{number}.png").write_bytes(content[:33] + b"\0\0\0\x04gAMAabcd\0\0\0\0" + content[33:])
    command = (
        "import sys; from qmcif_engine import open_stack; from qmcif_engine.stack.window import Window; "
        "open_stack(sys.argv[1]).read(0, Window(0, 0, 5, 5))"
    )
    done = subprocess.run([sys.executable, "-c", command, str(tmp_path)], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("", "")


def test_excluding_all_but_one_is_refused(tmp_path):
    pictures(tmp_path, noise(2, 20, 24))
    with pytest.raises(InvalidImageError, match="1 image was given"):
        open_stack(tmp_path, exclude=[1])
    with pytest.raises(InvalidImageError, match="1 image was given"):
        open_stack(noise(2, 20, 24), exclude=[1])


def test_a_point_in_time_that_does_not_exist_is_refused():
    stack = open_stack(noise(2, 3, 20, 24), axes="TZYX")
    for time in (-1, 2):
        with pytest.raises(InvalidConfigError, match=f"time is {time}; a number from 0 to 1 is needed"):
            stack.at_time(time)
    with pytest.raises(InvalidConfigError, match="time is 2; a number from 0 to 1 is needed"):
        open_stack(noise(2, 3, 20, 24), axes="TZYX", time=2)


@pytest.mark.parametrize("window", [Window(-1, 0, 5, 5), Window(0, 0, 21, 5), Window(0, 20, 5, 25), Window(5, 0, 4, 5)])
def test_window_outside_the_images_is_refused(window):
    with pytest.raises(InvalidImageError, match="was asked of images of 24 x 20 pixels; a window inside them is needed"):
        open_stack(noise(2, 20, 24)).read(0, window)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_refused_where_they_are_read(value):
    array = noise(2, 20, 24, dtype="float32")
    array[1, 10, 10] = value
    stack = open_stack(array)
    stack.read(1, Window(0, 0, 10, 24))
    with pytest.raises(InvalidImageError, match="image 2 of the array holds NaN or infinite samples; finite ones are needed: fill them"):
        stack.read(1, Window(0, 0, 11, 24))


def test_missing_damaged_and_strange_files_are_refused_at_opening(tmp_path):
    pictures(tmp_path, noise(2, 20, 24))
    with pytest.raises(ImageFileError, match=r"none.png' cannot be read \(No such file or directory\)"):
        open_stack([tmp_path / "img0.png", tmp_path / "none.png"])
    (tmp_path / "img2.png").write_bytes((tmp_path / "img0.png").read_bytes()[:-10])
    with pytest.raises(ImageFileError, match=r"img2.png' is truncated or corrupt \(the end of the file is missing\)"):
        open_stack(tmp_path)
    (tmp_path / "img2.png").write_bytes(b"plain text")
    with pytest.raises(ImageFileError, match=r"img2.png' begins with b'plain te'; a PNG, JPEG or TIFF file is needed"):
        open_stack(tmp_path)
    (tmp_path / "img2.png").unlink()
    (tmp_path / "img2.png").symlink_to(tmp_path / "img2.png")
    with pytest.raises(ImageFileError, match=r"img2.png' cannot be read \(Too many levels of symbolic links\)"):
        open_stack(tmp_path)
    (tmp_path / "img2.png").unlink()
    os.mkfifo(tmp_path / "img2.png")
    with pytest.raises(ImageFileError, match=r"img2.png' is a pipe, socket or device"):
        open_stack(tmp_path)


def test_significant_bits_are_known_where_all_files_agree(tmp_path):
    description = '<OME><Pixels Type="uint16" SignificantBits="{}" SizeZ="1" SizeC="1" SizeT="1"/></OME>'
    for number, bits in enumerate((12, 12, 14)):
        tifffile.imwrite(tmp_path / f"{number}.tif", noise(20, 24, dtype="uint16"), description=description.format(bits), metadata=None)
    assert open_stack(tmp_path, exclude=[3], axes="YX").metadata.significant_bits == 12
    assert open_stack(tmp_path, axes="YX").metadata.significant_bits is None


def test_metadata_are_those_of_the_first_frame(tmp_path):
    for number, dpi in enumerate((300, 150)):
        Image.fromarray(noise(20, 24)).save(tmp_path / f"{number}.jpg", dpi=(dpi, dpi))
    assert open_stack(tmp_path).metadata.dpi == (300, 300)
    assert open_stack(tmp_path, order="reversed").metadata.dpi == (150, 150)


def test_nothing_is_decoded_before_a_window_is_read_and_then_once(tmp_path, monkeypatch):
    images = noise(3, 20, 24)
    pictures(tmp_path, images)
    decoded = []
    decode = imagecodecs.png_decode
    monkeypatch.setattr("qmcif_engine.io.pictures.imagecodecs.png_decode", lambda content: (decoded.append(1), decode(content))[1])
    stack = open_stack(tmp_path)
    assert (stack.n_images, stack.image_shape, stack.dtype) == (3, (20, 24), np.uint8)
    assert decoded == []
    for _ in range(3):
        stack.read(1, WINDOW)
    assert len(decoded) == 1


def test_scratch_is_announced_filled_and_removed(tmp_path):
    images = noise(4, 20, 24, 3)
    pictures(tmp_path, images)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with open_stack(tmp_path, scratch_folder=scratch, memory_bytes=0) as stack:
        assert stack.scratch_bytes == images.nbytes
        assert list(scratch.iterdir()) == []
        np.testing.assert_array_equal(frames(stack), images)
        n_files = sum(file.stat().st_size >= images[0].nbytes for folder in scratch.iterdir() for file in folder.iterdir())
        assert n_files == 4
        np.testing.assert_array_equal(frames(stack), images)
    assert list(scratch.iterdir()) == []


def prepare_transcoding(folder):
    stack = open_stack(folder, memory_bytes=0, scratch_folder=folder)

    def transcode():
        with stack:
            for number in range(6):
                stack.read(number, WINDOW)

    return transcode


def test_transcoding_takes_the_memory_of_one_image(tmp_path, peak_of):
    image = np.zeros((600, 500, 3), np.uint8)
    pictures(tmp_path, [image] * 6)
    assert peak_of(prepare_transcoding, tmp_path) < 2 * image.nbytes


def test_file_that_is_exchanged_after_opening_is_refused(tmp_path):
    pictures(tmp_path, noise(2, 20, 24))
    stack = open_stack(tmp_path)
    pictures(tmp_path, noise(2, 30, 24))
    with pytest.raises(ImageFileError, match="it was changed after it was opened"):
        stack.read(0, WINDOW)


def storages(folder, array):
    """The same samples, stored in every way."""
    folder.mkdir()
    pictures(folder, array, names=[f"p{number}" for number in range(len(array))])
    yield str(folder / "p*.png")
    tifffile.imwrite(folder / "s.tif", array, photometric="minisblack", tile=(16, 16), compression="zlib")
    yield folder / "s.tif"
    zarr.create_array(folder / "z.zarr", shape=array.shape, dtype=array.dtype, chunks=(1, 7, 9))[...] = array
    yield folder / "z.zarr"
    yield array


def test_the_samples_are_the_same_however_they_are_stored(tmp_path):
    array = noise(3, 20, 24)
    for inputs in storages(tmp_path / "a", array):
        with open_stack(inputs) as stack:
            for number in range(3):
                np.testing.assert_array_equal(stack.read(number, Window.whole((20, 24))), array[number])


def read_randomly(stack, array, seed, wrong):
    random = np.random.default_rng(seed)
    for _ in range(40):
        number = int(random.integers(len(array)))
        top, bottom = sorted(random.integers(0, 21, 2).tolist())
        left, right = sorted(random.integers(0, 25, 2).tolist())
        if not np.array_equal(stack.read(number, Window(top, left, bottom, right)), array[number, top:bottom, left:right]):
            wrong.append((number, top, left, bottom, right))


@pytest.mark.parametrize("memory_bytes", [0, 2**28])
def test_eight_threads_read_random_windows(tmp_path, memory_bytes):
    array = noise(4, 20, 24)
    for inputs in storages(tmp_path / "a", array):
        wrong: list[object] = []
        with open_stack(inputs, memory_bytes=memory_bytes, cache_bytes=600) as stack:
            threads = [threading.Thread(target=read_randomly, args=(stack, array, seed, wrong)) for seed in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert wrong == []


def test_stacks_are_read_by_a_started_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    array = noise(3, 20, 24)
    names = [os.path.relpath(item) if not isinstance(item, np.ndarray) else item for item in storages(tmp_path / "a", array)]
    with multiprocessing.get_context("spawn").Pool(1, initializer=os.chdir, initargs=("/",)) as pool:
        for inputs in names:
            with open_stack(inputs, memory_bytes=0) as stack:
                results = pool.apply(pickle.loads, (pickle.dumps(stack),))
                assert results.names == stack.names
                bands = pool.starmap(stack.read, [(number, WINDOW) for number in range(3)])
                np.testing.assert_array_equal(bands, array[:, 3:17, 5:20])


def prepare_reading_in_bands(file):
    stack = open_stack(file, cache_bytes=2**20)
    return lambda: [stack.read(1, Window(top, 0, top + 100, 3000)).max() for top in range(0, 3000, 500)]


def test_memory_does_not_grow_with_the_image(tmp_path, peak_of):
    image = np.zeros((3000, 3000), np.uint16)
    tifffile.imwrite(tmp_path / "stack.tif", np.stack([image, image]), tile=(256, 256), compression="zlib", photometric="minisblack")
    assert peak_of(prepare_reading_in_bands, tmp_path / "stack.tif") < image.nbytes / 4


def test_importing_the_module_loads_no_library_of_a_format():
    code = "import sys, qmcif_engine.io.input.open; print(sorted({'zarr', 'dask', 'rawpy', 'numcodecs'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_paths_of_bytes_like_streams_are_refused():
    with pytest.raises(InvalidImageError, match="the array is a BytesIO; a path, a NumPy array or a dask array is needed"):
        open_stack(io.BytesIO(b""))


@pytest.mark.parametrize("suffix", [".png", ".jpg"])
def test_axes_of_pictures_that_have_no_others_are_refused(tmp_path, suffix):
    for number in range(2):
        Image.fromarray(np.zeros((8, 9), np.uint8)).save(tmp_path / f"{number}{suffix}")
    with pytest.raises(InvalidConfigError, match=r"the axes 'ZYX' were named and .* is one PNG or JPEG image, .*: leave them out"):
        open_stack(tmp_path, axes="ZYX")
