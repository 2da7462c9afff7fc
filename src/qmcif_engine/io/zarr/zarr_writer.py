"""OME-Zarr and its attributes, written window by window: by one process that reads an image, or by many tasks that each compute a part.

The arrays are zarr's own; ome-zarr-py streams from dask arrays only and cuts off the means of integers. zarr encodes chunks in memory, and
here they get their names once their bytes are on the disk. Whoever writes makes no folder: one who comes late, when the store was moved
into place or removed, fails instead of leaving something behind. A store in a bucket has its final name from the start, and its root is
described last.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.io.metadata.embedding import encode_provenance, prepare_embedding
from qmcif_engine.io.metadata.ome_xml import name_channels
from qmcif_engine.io.output.moves import sync_folder, write_durably
from qmcif_engine.io.output.windowed_image import BLOCK_SIDE_PX, ImageContent, StackAxis, WriteRun, count_blocks, halve, level_shapes
from qmcif_engine.io.remote_path import Location
from qmcif_engine.stack.window import Window

if TYPE_CHECKING:
    import zarr

MOST_CHUNK_FILES = 2**14
"""Chunks of a level that are files of their own; where there are more, those of a tile share one (4 gigapixels with the default)."""

_T = TypeVar("_T")
_METADATA = "zarr.json"
# the default of zstd; not Blosc, whose threads store their parts in the order in which they happen to finish
_COMPRESSION: Any = {"name": "zstd", "configuration": {"level": 3, "checksum": True}}

_RGB_COLORS = ("FF0000", "00FF00", "0000FF")
_DYE_COLORS = ("0000FF", "00FF00", "FF0000", "FF00FF", "00FFFF", "FFFF00")
_WHITE = "FFFFFF"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageArray:
    """A Zarr array of one image, or of several along an axis, that is written and read by window.

    Attributes
    ----------
    folder : Path or RemotePath
    scratch_folder : Path or RemotePath
        Where files lie until they are complete, if it is on a disk.
    shape : tuple of int
        Height, width and, where there is a channel axis, channels.
    dtype : dtype
    chunk_px : int
    shard_px : tuple of int or None
        Height and width of what shares a file; None where each chunk has its own.
    axis : "Z", "T" or None
        What several images lie along.
    n_images : int
    is_kept : bool
        Whether it becomes an output, compressed and with a folder for each row of chunks.
    """

    folder: Location
    scratch_folder: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk_px: int
    shard_px: tuple[int, int] | None = None
    axis: StackAxis | None = None
    n_images: int = 1
    is_kept: bool = True

    def create(self) -> None:
        """Describe the array, and make the folders of its chunks."""
        kept, _ = self._make_in_memory()
        if isinstance(self.folder, Path):
            self.folder.mkdir(exist_ok=True)
            # now, by one process: tasks that make folders at once would race for them, and for their entries on the disk
            images = range(self.n_images) if self.is_kept else ()
            for parent in {(self.folder / key).parent for image in images for key in self._keys(Window.whole(self.shape), image)}:
                parent.mkdir(parents=True, exist_ok=True)
        write_durably({self.folder / _METADATA: kept[_METADATA].to_bytes()}, scratch_folder=self.scratch_folder)

    def encode(self, window: Window, block: NDArray[Any], image: int = 0) -> dict[Location, bytes]:
        """Return the files of a window, which begins and, within the image, ends where a file does."""
        kept, array = self._make_in_memory()
        array[(*self._place(image), *window.slices)] = np.moveaxis(block, -1, 0) if block.ndim == 3 else block
        return {self.folder / key: kept[key].to_bytes() for key in self._keys(window, image)}

    def write(self, window: Window, block: NDArray[Any], image: int = 0) -> None:
        """Write a window."""
        write_durably(self.encode(window, block, image), scratch_folder=self.scratch_folder)

    def contents(self, window: Window, image: int = 0) -> list[bytes]:
        """Return what the files of a window on the disk hold."""
        return [(self.folder / key).read_bytes() for key in self._keys(window, image)] if isinstance(self.folder, Path) else []

    def is_stored(self, window: Window, image: int = 0) -> bool:
        """Return whether all files of a window are there."""
        return all((self.folder / key).is_file() for key in self._keys(window, image))

    def read(self, window: Window, image: int = 0) -> NDArray[Any]:
        """Return the samples of a window that has been written."""
        import zarr

        from qmcif_engine.io.zarr.zarr_checks import open_store

        array = zarr.open_array(open_store(self.folder), mode="r")
        planes = np.asarray(array[(*self._place(image), *window.slices)])
        return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes

    def _make_in_memory(self) -> tuple[dict[str, Any], zarr.Array[Any]]:
        """Return an empty array of this kind, and the dictionary that will hold its files."""
        import zarr  # slow to load, and few need it
        from zarr.storage import MemoryStore

        kept: dict[str, Any] = {}
        array = zarr.create_array(
            MemoryStore(kept),
            shape=self._order(self.n_images, self.shape[2:], (self.shape[0], self.shape[1])),
            chunks=self._order(1, self.shape[2:], (self.chunk_px, self.chunk_px)),
            shards=None if self.shard_px is None else self._order(1, self.shape[2:], self.shard_px),
            dtype=self.dtype,
            compressors=_COMPRESSION if self.is_kept else None,
            fill_value=0,
            dimension_names=name_axes(self.shape, self.axis),
            chunk_key_encoding={"name": "default", "separator": "/" if self.is_kept else "."},
            # black chunks too, so that a missing one always means a damaged store
            config={"write_empty_chunks": True},
        )
        return kept, array

    def _order(self, n_images: int, channels: tuple[int, ...], sides: tuple[int, int]) -> tuple[int, ...]:
        """Return lengths in the order of the axes: time comes before the channels, depth behind them."""
        along = () if self.axis is None else (n_images,)
        return (*channels, *along, *sides) if self.axis == "Z" else (*along, *channels, *sides)

    def _place(self, image: int) -> tuple[Any, ...]:
        """Return the index of one image before its rows and columns, all channels included."""
        return {None: (...,), "T": (image, ...), "Z": (..., image)}[self.axis]

    def _keys(self, window: Window, image: int) -> Iterator[str]:
        """Yield the name of every file that a window of an image touches."""
        height, width = self.shard_px or (self.chunk_px, self.chunk_px)
        rows = range(window.top // height, -(-window.bottom // height))
        columns = range(window.left // width, -(-window.right // width))
        for cell in itertools.product(rows, columns):
            # all channels share a chunk, so its number along their axis is always 0
            yield ("/" if self.is_kept else ".").join(["c", *map(str, self._order(image, (0,) * len(self.shape[2:]), cell))])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStore:
    """An OME-Zarr image, or images along an axis, and smaller copies, each level made of the one before.

    Attributes
    ----------
    folder : Path or RemotePath
        In a bucket it is the target itself.
    scratch_folder : Path or RemotePath
        See `ImageArray`.
    shape : tuple of int
        Height, width and, where there is a channel axis, channels, alpha included.
    dtype : dtype
    n_colors : int
        Channels without alpha.
    chunk_px : int
    block_px : tuple of int
        Height and width of what is written at a time: multiples of the chunks.
    """

    folder: Location
    scratch_folder: Location
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    n_colors: int
    chunk_px: int = BLOCK_SIDE_PX
    block_px: tuple[int, int] = (BLOCK_SIDE_PX, BLOCK_SIDE_PX)
    axis: StackAxis | None = None
    n_images: int = 1

    @property
    def levels(self) -> list[ImageArray]:
        """All levels, the full one first."""
        return [
            ImageArray(
                folder=self.folder / str(number),
                scratch_folder=self.scratch_folder,
                shape=shape,
                dtype=self.dtype,
                chunk_px=self.chunk_px,
                shard_px=self._choose_shards(shape),
                axis=self.axis,
                n_images=self.n_images,
            )
            for number, shape in enumerate(level_shapes(self.shape))
        ]

    def _choose_shards(self, shape: tuple[int, ...]) -> tuple[int, int] | None:
        """Return what shares a file: nothing where chunks are few enough, else what one task writes."""
        n_chunks = -(-shape[0] // self.chunk_px) * -(-shape[1] // self.chunk_px)
        # a shard of one chunk would only add an index
        return None if n_chunks <= MOST_CHUNK_FILES or self.block_px == (self.chunk_px, self.chunk_px) else self.block_px

    def begin(self) -> None:
        """Make the folder, ready for tiles."""
        if isinstance(self.folder, Path):
            self.folder.mkdir(exist_ok=True)
        self.levels[0].create()

    def finish(self, content: ImageContent, extremes: Extremes) -> None:
        """Describe the image, whose levels are all there, and wait until its folders are on the disk."""
        attributes = describe_group(content, n_levels=len(self.levels), extremes=extremes, axis=self.axis)
        group = {"attributes": attributes, "zarr_format": 3, "node_type": "group"}
        # last: readers take a group without it for none
        write_durably({self.folder / _METADATA: json.dumps(group, indent=2).encode()}, scratch_folder=self.scratch_folder)
        if isinstance(self.folder, Path):
            # chunks waited for their bytes and names; the folders themselves were not waited for
            for folder in (path for path in self.folder.rglob("*") if path.is_dir()):
                sync_folder(folder)


def halve_window(larger: ImageArray, window: Window, image: int = 0) -> NDArray[Any]:
    """Return a window of the next smaller level."""
    # at the lower and right border an odd side has no second sample: the window is cut there
    doubled = Window(*(2 * side for side in window)).common(Window.whole(larger.shape))
    return halve(larger.read(doubled, image))


def write_ome_zarr(folder: Path, content: ImageContent, *, run: WriteRun) -> None:
    """Write an image or a stack of images, and smaller copies, as a folder that does not exist yet.

    Color is stored in planes with a channel axis (c, y, x); gray has the axes (y, x); time comes first, depth behind the channels. Chunks
    hold all channels of a block and carry a checksum. Memory holds a few chunks.
    """
    store = ImageStore(
        folder=folder,
        scratch_folder=folder,
        shape=content.image.shape,
        dtype=content.image.dtype,
        n_colors=content.n_colors,
        axis=content.axis,
        n_images=len(content.images),
    )
    store.begin()
    extremes = Extremes(content.n_colors)
    for number, image in enumerate(content.images):
        for window, block in run.read(image):
            extremes.widen(measure_extremes(block, content.n_colors))
            store.levels[0].write(window, block, number)
    for larger, smaller in itertools.pairwise(store.levels):
        smaller.create()
        for number in range(store.n_images):
            for window in run.windows(smaller.shape):
                smaller.write(window, halve_window(larger, window, number), number)
                run.count_block()
    store.finish(content, extremes)


def count_chunks(content: ImageContent) -> int:
    """Return how many chunks are written, over all images and levels."""
    return len(content.images) * sum(count_blocks(shape) for shape in level_shapes(content.image.shape))


class Extremes:
    """Least and largest finite sample of every color, from which viewers set their contrast.

    ``bounds`` has shape (2, number of colors), infinite, the wrong way round, where there is no finite sample.
    """

    def __init__(self, n_colors: int) -> None:
        self.bounds = np.array([[np.inf], [-np.inf]]).repeat(n_colors, axis=1)

    def widen(self, bounds: NDArray[np.float64]) -> None:
        """Take the extremes of some samples into account."""
        self.bounds = np.stack([np.minimum(self.bounds[0], bounds[0]), np.maximum(self.bounds[1], bounds[1])])

    def of_colors(self, *, are_shared: bool) -> list[tuple[float, float]]:
        """Return the least and the largest sample of every color, or of all of them together."""
        n_colors = self.bounds.shape[1]
        bounds = [(self.bounds[0].min(), self.bounds[1].max())] * n_colors if are_shared else self.bounds.T
        # a constant channel, or one without a finite sample, needs some window all the same
        return [(float(low), float(high)) if low < high else (0.0, 1.0) for low, high in bounds]


def measure_extremes(block: NDArray[Any], n_colors: int) -> NDArray[np.float64]:
    """Return the bounds of a window, taken while it is in memory: the image is never read again for its contrast."""
    by_color = (block[..., :n_colors] if block.ndim == 3 else block).reshape(-1, n_colors)
    if by_color.dtype.kind == "f":
        is_finite = np.isfinite(by_color)
        bounds = by_color.min(axis=0, initial=np.inf, where=is_finite), by_color.max(axis=0, initial=-np.inf, where=is_finite)
    else:
        bounds = by_color.min(axis=0), by_color.max(axis=0)
    return np.stack(bounds).astype(np.float64)


def name_axes(shape: tuple[int, ...], axis: StackAxis | None) -> list[str]:
    """Return the names of the axes of an image of shape (H, W) or (H, W, C), or of such images along z or t, in their order."""
    return ["t"] * (axis == "T") + ["c"] * (len(shape) == 3) + ["z"] * (axis == "Z") + ["y", "x"]


def describe_group(content: ImageContent, *, n_levels: int, extremes: Extremes, axis: StackAxis | None = None) -> dict[str, Any]:
    """Return the attributes of a group of levels, of an image or of images along z or t."""
    multiscale: dict[str, Any] = {
        **({"name": content.metadata.image_name} if content.metadata.image_name else {}),
        "axes": _axes(content, axis),
        "datasets": [_dataset(content, level, axis) for level in range(n_levels)],
        # how smaller levels were made
        "type": "mean",
    }
    return {"ome": {"version": "0.5", "multiscales": [multiscale], "omero": _rendering(content, extremes)}} | _own_attributes(content)


def _axes(content: ImageContent, axis: StackAxis | None) -> list[dict[str, str]]:
    metadata = content.metadata
    known = {"y": metadata.pixel_size, "x": metadata.pixel_size, "z": metadata.z_step}
    units = {name: {"unit": metadata.unit} if metadata.unit and length else {} for name, length in known.items()}
    units |= {"c": {}, "t": {"unit": "second"} if metadata.time_step else {}}
    kinds = {"c": "channel", "t": "time"}
    return [{"name": name, "type": kinds.get(name, "space")} | units[name] for name in name_axes(content.image.shape, axis)]


def _dataset(content: ImageContent, level: int, axis: StackAxis | None) -> dict[str, Any]:
    """Return the place of a level: its first pixel covers several of the image's, so its center lies a little further in."""
    factor = 2**level
    # in pixels of the full level
    shift = (factor - 1) / 2
    pixel = content.metadata.pixel_size or (1.0, 1.0)
    steps = {"c": 1.0, "z": content.metadata.z_step or 1.0, "t": content.metadata.time_step or 1.0}
    before = [steps[name] for name in name_axes(content.image.shape, axis)[:-2]]
    return {
        "path": str(level),
        "coordinateTransformations": [
            {"type": "scale", "scale": [*before, *(side * factor for side in pixel)]},
            {"type": "translation", "translation": [0.0] * len(before) + [side * shift for side in pixel]},
        ],
    }


def _rendering(content: ImageContent, extremes: Extremes) -> dict[str, Any]:
    """Return how channels are shown: as the source says, else in usual colors, each as far as it has samples; alpha as the first."""
    metadata, n_colors = content.metadata, content.n_colors
    known, limits = _match(metadata.channel_colors, n_colors), _match(metadata.channel_limits, n_colors)
    emissions = _match(metadata.channel_emissions_nm, n_colors)
    usual = _RGB_COLORS if content.is_rgb else (_WHITE,) if n_colors == 1 else _DYE_COLORS
    colors = [usual[number % len(usual)] if color is None else color[1:].upper() for number, color in enumerate(known)]
    # the colors of an image share one contrast, so that they keep their balance
    pairs = extremes.of_colors(are_shared=content.is_rgb)
    windows = [_display_window(content, *pair, limits=limit) for pair, limit in zip(pairs, limits, strict=True)]
    channels = [
        {
            "label": name,
            "color": _WHITE if is_alpha else colors[number],
            "active": not is_alpha,
            "coefficient": 1,
            "family": "linear",
            "inverted": False,
            "window": windows[0 if is_alpha else number],
            **({} if is_alpha or emissions[number] is None else {"emissionWave": emissions[number]}),
        }
        for number, name in enumerate(name_channels(content))
        for is_alpha in [number >= n_colors]
    ]
    return {"channels": channels, "rdefs": {"defaultT": 0, "defaultZ": 0, "model": "color" if content.n_colors > 1 else "greyscale"}}


def _match(looks: Sequence[_T], n_colors: int) -> Sequence[_T | None]:
    return looks if len(looks) == n_colors else (None,) * n_colors


def _display_window(content: ImageContent, low: float, high: float, *, limits: tuple[float, float] | None) -> dict[str, float]:
    """Return the contrast of a channel: the limits of the source, else 8 bits whole and others as far as there are samples."""
    if limits is not None:
        # a slider must reach both what the source shows and all samples
        start, end = limits
        window = _display_window(content, low, high, limits=None)
        return {"min": min(window["min"], start), "max": max(window["max"], end), "start": start, "end": end}
    if content.image.dtype.kind != "u":
        return {"min": low, "max": high, "start": low, "end": high}
    n_bits = content.metadata.significant_bits or 8 * content.image.dtype.itemsize
    largest = 2**n_bits - 1
    is_whole = content.image.dtype.itemsize == 1
    return {"min": 0, "max": largest, "start": 0 if is_whole else int(low), "end": largest if is_whole else int(high)}


def _own_attributes(content: ImageContent) -> dict[str, Any]:
    """Return provenance under one key, and with it what cameras write, for which OME-Zarr has no place."""
    own: dict[str, Any] = json.loads(encode_provenance(content.provenance))
    metadata, embedding = content.metadata, prepare_embedding(content)
    for name, value in (("icc_profile", embedding.profile), ("exif", embedding.exif)):
        if value is not None:
            own["qmcif"][name] = base64.b64encode(value).decode()
    for name in ("description", "dpi", "significant_bits"):
        if getattr(metadata, name):
            own["qmcif"][name] = getattr(metadata, name)
    return own
