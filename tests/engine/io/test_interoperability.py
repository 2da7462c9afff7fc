"""What other programs write is read, and what we write is opened by others; the table of `docs/files.md` is made of what was tried here.

``QMCIF_WRITE_TABLES=1 pytest tests/engine/io/test_interoperability.py`` writes the table anew.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import imagecodecs
import numpy as np
import ome_types
import ome_zarr.io
import ome_zarr.reader
import pytest
import tifffile
import yaozarrs
import zarr
from ome_zarr.format import FormatV04, FormatV05
from ome_zarr.writer import write_multiscale
from PIL import Image

from qmcif_engine.io import remote
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.output.stack_output import write_stack
from qmcif_engine.stack.window import Window

DOCUMENT = Path(__file__).parents[3] / "docs" / "files.md"
BEGIN, END = "<!-- interoperability: begin -->\n", "<!-- interoperability: end -->\n"
SAMPLES = np.random.default_rng(0).integers(0, 60000, (3, 2, 24, 28)).astype(np.uint16)
EIGHT_BIT = (SAMPLES[:, 0] // 256).astype(np.uint8)
COLORED = np.random.default_rng(1).integers(0, 256, (3, 24, 28, 3)).astype(np.uint8)
STOP_SERVERS = []
NAMES, COLORS = ["EGFP", "Cy5"], ["00FF00", "FF00FF"]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def ome_tiff(folder):
    channels = {"Name": NAMES, "Color": [int(color + "FF", 16) - (2**32 if color > "7" else 0) for color in COLORS]}
    sizes = {"PhysicalSizeX": 0.25, "PhysicalSizeY": 0.5, "PhysicalSizeZ": 2.0}
    tifffile.imwrite(folder / "in.ome.tif", SAMPLES, ome=True, metadata={"axes": "ZCYX", "Channel": channels} | sizes)
    return folder / "in.ome.tif"


def imagej_tiff(folder):
    ramps = [np.outer([int(color[part : part + 2], 16) for part in (0, 2, 4)], np.arange(256) / 255).astype(np.uint8) for color in COLORS]
    notes = {"axes": "ZCYX", "unit": "um", "spacing": 2.0, "LUTs": ramps, "Labels": NAMES * 3}
    tifffile.imwrite(folder / "in.tif", SAMPLES, imagej=True, resolution=(4.0, 2.0), metadata=notes)
    return folder / "in.tif"


def pages(folder):
    tifffile.imwrite(folder / "in.tif", SAMPLES[:, 0], metadata=None, photometric="minisblack")
    return folder / "in.tif"


def ome_zarr_of(form):
    def write(folder):
        group = zarr.create_group(folder / "in.zarr", zarr_format=form.zarr_format)
        axes = [{"name": "z", "type": "space", "unit": "micrometer"}, {"name": "c", "type": "channel"}]
        axes = [axes[1], axes[0], *({"name": name, "type": "space", "unit": "micrometer"} for name in "yx")]
        scale = [[{"type": "scale", "scale": [1.0, 2.0, 0.5, 0.25]}]]
        options = {"axes": axes, "coordinate_transformations": scale, "fmt": form}
        write_multiscale([SAMPLES.swapaxes(0, 1)], group, **options)
        attributes = group.attrs.asdict()
        described = attributes if form.version == "0.4" else attributes["ome"]
        described["omero"] = {"channels": [{"label": name, "color": color} for name, color in zip(NAMES, COLORS, strict=True)]}
        described["multiscales"][0]["axes"] = axes  # versions from 0.19 on leave the units out
        group.attrs.put(attributes)
        return folder / "in.zarr"

    return write


def zarr_array(zarr_format):
    def write(folder):
        zarr.create_array(folder / "in.zarr", data=SAMPLES[:, 0], chunks=(1, 16, 16), zarr_format=zarr_format)
        return folder / "in.zarr"

    return write


def png_folder(folder):
    for number, plane in enumerate(SAMPLES[:, 0]):
        Image.fromarray(plane).save(folder / f"{number}.png")
    return folder


def sharded(folder):
    group = zarr.create_group(folder / "in.zarr", zarr_format=3)
    group.create_array("0", data=SAMPLES.swapaxes(0, 1), chunks=(1, 1, 16, 16), shards=(1, 1, 32, 32))
    axes = [{"name": "c", "type": "channel"}, *({"name": name, "type": "space", "unit": "micrometer"} for name in "zyx")]
    scale = [{"type": "scale", "scale": [1.0, 2.0, 0.5, 0.25]}]
    described = {"axes": axes, "datasets": [{"path": "0", "coordinateTransformations": scale}]}
    group.attrs["ome"] = {"version": "0.5", "multiscales": [described]}
    return folder / "in.zarr"


def bioformats2raw(folder):
    (folder / "inner").mkdir()
    root = zarr.create_group(folder / "in.zarr", zarr_format=2)
    root.attrs["bioformats2raw.layout"] = 3
    for number in range(2):
        ome_zarr_of(FormatV04())(folder / "inner").rename(folder / "in.zarr" / str(number))
    return folder / "in.zarr", {"image": 2}


def imagej_palette(folder):
    colors = np.outer([0, 65535, 0], np.arange(256) / 255).astype(np.uint16)
    tifffile.imwrite(folder / "in.tif", EIGHT_BIT, photometric="palette", colormap=colors, metadata=None)
    return folder / "in.tif"


def save_images(suffix, planes, **options):
    def write(folder):
        for number, plane in enumerate(planes):
            Image.fromarray(plane).save(folder / f"{number}{suffix}", **options)
        return folder

    return write


def palette_png(folder):
    for number, plane in enumerate(COLORED):
        Image.fromarray(plane).quantize(64).save(folder / f"{number}.png")
    return folder


def avif(folder):
    for number, plane in enumerate(COLORED):
        (folder / f"{number}.avif").write_bytes(imagecodecs.avif_encode(plane, level=100))
    return folder


def czi(folder):
    library = pytest.importorskip("pylibCZIrw.czi")
    with library.create_czi(str(folder / "in.czi")) as file:
        for z, channels in enumerate(SAMPLES):
            for channel, plane in enumerate(channels):
                file.write(np.ascontiguousarray(plane[..., np.newaxis]), plane={"Z": z, "C": channel, "T": 0})
        file.write_metadata(channel_names=dict(enumerate(NAMES)), scale_x=0.25e-6, scale_y=0.5e-6, scale_z=2e-6)
    return folder / "in.czi"


def over_http(folder):
    return f"{serve(folder)}/{ome_zarr_of(FormatV05())(folder).name}"


def serve(folder):
    """Serve a folder as ``python -m http.server`` does."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    STOP_SERVERS.extend([server.server_close, server.shutdown])
    return f"http://127.0.0.1:{server.server_address[1]}"


def in_bucket(write):
    def upload(folder):
        boto3, moto = pytest.importorskip("boto3"), pytest.importorskip("moto.server")
        server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        STOP_SERVERS.append(server.stop)
        host, port = server.get_host_and_port()
        settings = {"AWS_ACCESS_KEY_ID": "known", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_DEFAULT_REGION": "us-east-1"}
        os.environ.update(settings, AWS_ENDPOINT_URL=f"http://{host}:{port}")
        remote.connect.cache_clear()
        client = boto3.client("s3")
        client.create_bucket(Bucket=folder.name)
        source = write(folder)
        for file in [source] if source.is_file() else [path for path in source.rglob("*") if path.is_file()]:
            client.put_object(Bucket=folder.name, Key=file.relative_to(folder).as_posix(), Body=file.read_bytes())
        client.close()
        return f"s3://{folder.name}/{source.name}"

    return upload


def decode_files(pattern, read):
    """Return what another library reads of the files of a folder."""
    return lambda folder: np.moveaxis(np.stack([read(path) for path in sorted(folder.glob(pattern))]), -1, 1)


def see_with_pillow(path):
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


ROWS = {
    "OME-TIFF, tifffile": (ome_tiff, ".ome.tif"),
    "ImageJ TIFF, tifffile": (imagej_tiff, ".tif"),
    "TIFF of plain pages, tifffile": (pages, ".tif"),
    "TIFF with a color ramp, tifffile": (imagej_palette, None),
    "OME-Zarr 0.4, ome-zarr": (ome_zarr_of(FormatV04()), None),
    "OME-Zarr 0.5, ome-zarr": (ome_zarr_of(FormatV05()), ".ome.zarr"),
    "OME-Zarr 0.5 with shards, zarr": (sharded, None),
    "folder as bioformats2raw lays it out, ome-zarr": (bioformats2raw, None),
    "Zarr 2 array, zarr": (zarr_array(2), None),
    "Zarr 3 array, zarr": (zarr_array(3), None),
    "OME-Zarr 0.5 over `http://`, `http.server`": (over_http, None),
    "OME-Zarr 0.5 in `s3://`, moto": (in_bucket(ome_zarr_of(FormatV05())), None),
    "OME-TIFF in `s3://`, moto": (in_bucket(ome_tiff), None),
    "CZI, pylibCZIrw": (czi, None),
    "16-bit PNG files, Pillow": (png_folder, "_{frame}.png"),
    "8-bit RGB PNG files, Pillow": (save_images(".png", COLORED), None),
    "PNG files with a palette, Pillow": (palette_png, None),
    "JPEG files, Pillow": (save_images(".jpg", COLORED), None),
    "AVIF files, imagecodecs": (avif, None),
}
EXPECTED = {
    "TIFF with a color ramp, tifffile": lambda _: EIGHT_BIT,
    "8-bit RGB PNG files, Pillow": decode_files("*.png", see_with_pillow),
    "PNG files with a palette, Pillow": decode_files("*.png", see_with_pillow),
    "JPEG files, Pillow": decode_files("*.jpg", see_with_pillow),
    "AVIF files, imagecodecs": decode_files("*.avif", lambda path: imagecodecs.avif_decode(path.read_bytes())),
}
"""What is to be read where that is not what all other rows hold, given the folder of the files."""


def read_with_tifffile(path):
    return tifffile.imread(path)


def read_with_ome_types(path):
    pixels = ome_types.from_tiff(path).images[0].pixels
    samples = tifffile.imread(path)
    assert (pixels.size_z, pixels.size_c) == (samples.shape[0], samples.shape[1] if samples.ndim == 4 else 1)
    return samples


def read_with_pillow(path):
    if "{frame}" in path.name:
        return np.stack([np.asarray(Image.open(file)) for file in sorted(path.parent.glob("out_*.png"))])
    with Image.open(path) as image:
        planes = []
        for number in range(image.n_frames):
            image.seek(number)
            planes.append(np.asarray(image))
        return np.stack(planes)


def read_with_ome_zarr(path):
    node = next(iter(ome_zarr.reader.Reader(ome_zarr.io.parse_url(path))()))
    return np.asarray(node.data[0]).swapaxes(0, 1)


def read_with_yaozarrs(path):
    yaozarrs.validate_zarr_store(path)
    return np.asarray(zarr.open_array(path / yaozarrs.open_group(path).ome_metadata().multiscales[0].datasets[0].path)).swapaxes(0, 1)


READERS = {
    ".ome.tif": {"tifffile": read_with_tifffile, "ome-types": read_with_ome_types},
    ".tif": {"tifffile": read_with_tifffile, "Pillow": read_with_pillow},
    ".ome.zarr": {"ome-zarr": read_with_ome_zarr, "yaozarrs": read_with_yaozarrs},
    "_{frame}.png": {"Pillow": read_with_pillow},
}


def stored(stack) -> np.ndarray:
    shown = stack.companions or stack
    images = np.stack([shown.read(number, Window.whole(shown.image_shape)) for number in range(stack.n_images)])
    return np.moveaxis(images, -1, 1) if images.ndim == 4 else images


def list_metadata(metadata) -> str:
    known = {
        "pixel size": metadata.pixel_size == pytest.approx((0.5, 0.25)) and metadata.unit == "micrometer",
        "z step": metadata.z_step == 2.0,
        "names": metadata.channel_names == tuple(NAMES),
        "colors": metadata.channel_colors == tuple(f"#{color.lower()}" for color in COLORS),
    }
    return ", ".join(name for name, is_known in known.items() if is_known) or "none there"


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> list[str]:
    with mock.patch.dict(os.environ):
        try:
            return make_table(tmp_path_factory)
        finally:
            remote.connect.cache_clear()
            while STOP_SERVERS:
                STOP_SERVERS.pop()()


def make_table(tmp_path_factory) -> list[str]:
    lines = ["| kind, writer | read | metadata taken over | written | opened by |", "|---|---|---|---|---|"]
    for name, (write, suffix) in ROWS.items():
        folder = tmp_path_factory.mktemp("row")
        source = write(folder)
        path, options = source if isinstance(source, tuple) else (source, {})
        stack = open_stack(path, **options)
        samples = stored(stack)
        expected = EXPECTED[name](folder) if name in EXPECTED else SAMPLES if samples.ndim == 4 else SAMPLES[:, 0]
        is_read = samples.dtype == expected.dtype and np.array_equal(samples, expected)
        opened = []
        if suffix is not None:
            target = tmp_path_factory.mktemp("written") / f"out{suffix}"
            write_stack(stack, target)
            opened = [
                reader
                for reader, read in READERS[suffix].items()
                if np.array_equal(np.squeeze(read(target)).reshape(expected.shape), expected)
            ]
        written = f"`{suffix.replace('_{frame}', '')}`" if suffix and opened else "–"
        lines.append(f"| {name} | {'yes' if is_read else 'no'} | {list_metadata(stack.metadata)} | {written} | {', '.join(opened)} |")
    return lines


def test_every_kind_is_read_and_what_is_written_is_opened_by_all_readers(table):
    for line, (name, (_, suffix)) in zip(table[2:], ROWS.items(), strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1] == "yes", name
        assert cells[4] == ", ".join(READERS.get(suffix, ())), name


def test_the_document_holds_the_table_of_what_was_tried(table):
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    shown, behind = rest.split(END)
    made = "\n".join(table) + "\n"
    if os.environ.get("QMCIF_WRITE_TABLES"):
        DOCUMENT.write_text(before + BEGIN + made + END + behind, encoding="utf-8")
    else:
        assert shown == made
