"""The options of all commands in one table, and the request that they make; nothing here computes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qmcif_engine.cli.terminal import parse_bytes
from qmcif_engine.config.fusion_config import PRESETS
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.remote_path import Location, RemotePath, locate
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, WRITTEN_MAPS


def to_path(text: str) -> Path:
    """Return the name of a file or folder on this machine, which is not empty."""
    place = to_location(text)
    if isinstance(place, RemotePath):
        msg = f"{str(place)!r} lies on a server, the name of a file or folder here is needed"
        raise argparse.ArgumentTypeError(msg)
    return place


def to_location(text: str) -> Location:
    """Return the name of a file or folder, here or on a server, which is not empty."""
    if not text:
        msg = "an empty name was given, the name of a file or folder is needed"
        raise argparse.ArgumentTypeError(msg)
    place: Location = _as_argument(locate, text)
    return place


def _as_argument(read: Callable[[str], Any], text: str) -> Any:  # noqa: ANN401 - whatever is read
    try:
        return read(text)
    except InvalidConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _bytes(text: str) -> int:
    return int(_as_argument(parse_bytes, text))


def _frame(text: str) -> int | str:
    # a name of digits alone cannot be given: numbers come first
    return int(text) if text.isdecimal() else text


def _order(text: str) -> list[int] | str:
    try:
        return text if text == "reversed" else [int(number) for number in text.split(",")]
    except ValueError:
        msg = f"{text!r} was given, reversed or frame numbers with commas between them are needed"
        raise argparse.ArgumentTypeError(msg) from None


def _channels(text: str) -> list[int | str] | str:
    return text if text == "each" else [_frame(name.strip()) for name in text.split(",")]


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} was given, a whole number of at least 1 is needed"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


_TYPES: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("INPUT", "OUT", "PATH"), to_location),
    **dict.fromkeys(("DATASET_DIR", "DIR", "F", "FILE", "HEIGHTS", "REPORT_DIR", "ROOT", "SOURCE"), to_path),
    **dict.fromkeys(("FRAME", "IMAGE"), _frame),
    **dict.fromkeys(("K", "N", "PX"), int),
    **dict.fromkeys(("D", "LOW", "X0"), float),
    "LIST": _channels,
    "ORDER": _order,
    "SIZE": _bytes,
}
"""How a value is read, by its name in the usage; texts are left as they are."""


def spell(words: str, help_text: str, **how: Any) -> dict[str, Any]:  # noqa: ANN401 - passed on to argparse
    """Return what argparse has to know of an option, from how its usage is written.

    Parameters
    ----------
    words : str
        Flags, then names of values: ``--line X0 Y0 X1 Y1``. A ``+`` or ``*`` behind the last one allows several values; a flag without
        values is on or off, unless it has choices.
    help_text : str
    **how
        Further arguments of `argparse.ArgumentParser.add_argument`.
    """
    flags = [word for word in words.split() if word.startswith("-")]
    values = words.split()[len(flags) :]
    known: dict[str, Any] = {"flags": flags, "help": help_text}
    if not values and "choices" not in how:
        known["action"] = "store_true"
    elif values:
        known["metavar"] = values[0].rstrip("+*") if len(values) == 1 else tuple(values)
        known["type"] = _TYPES.get(values[0].rstrip("+*"), str)
        if len(values) > 1 or known["metavar"] != values[0]:
            known["nargs"] = values[0][-1] if len(values) == 1 else len(values)
    return known | how


def option(words: str, help_text: str, *, default: Any = None, **how: Any) -> Any:  # noqa: ANN401 - a field of any type
    """Declare a field of the request together with how it is spelled."""
    return field(default=default, metadata=spell(words, help_text, **how))


def switch(words: str, help_text: str) -> Any:  # noqa: ANN401 - a field
    """Declare a field that is on or off."""
    return option(words, help_text, default=False)


def repeated(words: str, help_text: str) -> Any:  # noqa: ANN401 - a field
    """Declare a field of the values of an option that may be given several times."""
    return option(words, help_text, default=(), action="append")


MODELS = ("none", "translation", "similarity", "affine", "homography")
_MAPS = "; ".join(f"{name} ({OUTPUT_MAPS[name].meaning})" for name in WRITTEN_MAPS)


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a command is asked to do: the options of all commands, each with its usual spelling; what a command lacks has its default.

    Types that depend on the command are left open: of inputs and outputs, which may lie on servers, and of `maps` and `depth`, for which
    ``batch`` only says whether they are written.
    """

    # what is opened, and what is taken of it
    images: Sequence[Any] = option(
        "INPUT+",
        "image files; or one folder, pattern, multi-page TIFF, OME-TIFF, OME-Zarr or Zarr with the stack; https:// and s3:// too",
        default=(),
    )
    exclude: Sequence[int | str] = repeated("--exclude FRAME", "leave out a frame: number from 1, or name pattern")
    order: Sequence[int] | str | None = option("--order ORDER", "order of the frames: reversed, or numbers such as 3,1,2")
    image: int | str | None = option("--image IMAGE", "which image of a file that holds several: number from 1, or name")
    axes: str | None = option("--axes AXES", "axes of the input if it does not name them, such as ZCYX")
    time: int | None = option("--time T", "fuse one time point, counted from 0 (default: all)", type=int)
    channels: Sequence[int | str] | str | None = option(
        "--channels LIST",
        "up to three channels that decide for all, by number from 1 or name: 1,3 or DAPI,GFP; or each: every channel separately",
    )
    strict_chunks: bool = switch("--strict-chunks", "refuse a Zarr with missing chunks, which otherwise count as empty")
    scratch: Path | None = option("--scratch DIR", "folder for decoded copies of PNG and JPEG images")
    headers: bool = switch("--headers", "read only the headers: no range, no noise, no hints")
    guide: Sequence[Location] | None = option(
        "--guide PATH+",
        "make decisions on this copy of the stack, for example a denoised one, and take the samples from INPUT; any kind of input",
    )
    root: Any = option("ROOT", "folder of the stacks; every folder below it that contains images is one")
    pattern: str | None = option(
        "--pattern P",
        "files below ROOT, such as '{group}_z{frame}.tif': {group} names a stack, {frame} numbers an image, * matches anything",
    )
    # what is written
    output: Any = option("-o --output OUT", "fused image: .ome.zarr (also s3://), .ome.tif, .tif, .png, .jpg", required=True)
    suffix: str = option("--suffix S", "format of the fused images (default: .ome.tif)", default=".ome.tif")
    maps: Any = option("--maps DIR", f"also write maps as .tif here: {_MAPS}")
    depth: Any = option("--depth FILE", "also write the height of every pixel, as floats: .ome.tif, .tif or .ome.zarr")
    z_step: float | None = option(
        "--z-step D", "distance between neighboring images, negative if the stack runs downwards (default: from the input)"
    )
    z_unit: str | None = option("--z-unit UNIT", "unit of the z step and of the heights, such as micrometer or mm")
    depth_smoothing: int | None = option("--depth-smoothing PX", "radius over which heights are smoothed, keeping steps (default: 0)")
    slab: int | None = option("--slab N", "fuse groups of N neighboring images first, keep the results, and fuse these")
    slab_overlap: int | None = option("--slab-overlap K", "images that neighboring slabs share (default: a quarter of N)")
    slab_folder: Path | None = option("--slab-folder DIR", "folder where the slabs are kept (default: OUT.slabs)")
    split_time: bool = switch("--split-time", "write one file per time point (default: one file with a time axis)")
    # how it is fused
    preset: str = option("--preset", "settings to start from (default: default)", default="default", choices=tuple(PRESETS))
    config: Path | None = option("--config FILE", "TOML file with settings that replace the preset's")
    assignments: Sequence[str] = repeated("--set KEY=VALUE", "change one setting; may be repeated")
    focus_range: Sequence[Sequence[float]] = repeated(
        "--focus-range LOW HIGH",
        "sample values that count as black and white for decisions; repeat it to give each deciding channel its own range",
    )
    align: str | None = option("--align", "align the images; nothing is cropped (default: none, with a hint if they moved)", choices=MODELS)
    reference: int | None = option("--reference N", "reference image, which is not moved, counted from 1 (default: the middle one)")
    transforms: Path | None = option(
        "--transforms FILE", "JSON file of an alignment: used if it exists, otherwise written with what --align finds"
    )
    even_exposure: bool = switch(
        "--even-exposure", "adjust the brightness of every image to the reference (default: no, with a hint if it differs)"
    )
    crop: bool = switch("--crop", "keep only the largest rectangle that all images cover")
    # how it is run
    memory: int | None = option(
        "--memory SIZE",
        "memory for the tiles computed at once, such as 1GB; the program itself and images that are kept decoded, such as PNG and JPEG, "
        "need memory in addition (default: half of the free memory)",
    )
    workers: int | None = option("--workers N", "tiles computed at once (default: one per core)", type=_count)
    scheduler: str | None = option("--scheduler ADDRESS", "compute on the Dask cluster at this address, such as tcp://host:8786")
    resume: bool = switch("--resume", "continue an interrupted run of the same images and settings")
    dry_run: bool = switch("--dry-run", "show what the run would need, and compute nothing")
    overwrite: bool = switch("--overwrite", "replace existing output files")
    quiet: bool = switch("--quiet", "no progress bar and no summary")
    json: bool = switch("--json", "print one JSON object with times, memory, settings and output paths")
    # of single commands
    fused: Any = option("--fused F", "the image to score, of the same size and type as the sources", required=True)
    truth: Path | None = option("--truth T", "the sharp reference image, if there is one", type=to_path)
    border: int | None = option("--border PX", "width of the border left out of the inner PSNR (default: 8)")
    sample_range: Any = option("--sample-range LOW HIGH", "sample values of black and white; needed for floats")
    dataset: Any = option("DATASET_DIR", "folder of image sets; see below")
    presets: Sequence[str] = repeated("--preset NAME", f"settings to fuse with: {', '.join(PRESETS)}; may be repeated")
    methods: Sequence[str] = repeated("--method NAME", "run a published method too; see below; may be repeated")
    fused_by: Sequence[str] = repeated("--fused-by NAME=DIR", "score another method's images too; may be repeated")
    published: str | None = option(
        "--published SET", "published values to show: lytro, mffw, mfi_whu or none (default: by the folder's name)"
    )
    jobs: int | None = option("--jobs N", "worker processes; does not change the results (default: all cores)", type=_count)
    ablation: bool = switch(
        "--ablation", "make the two ablation tables of the paper instead, starting from the preset paper or the given one"
    )
    heights: Any = option("HEIGHTS", "height map that fuse --depth wrote: .tif or .ome.tif")
    texture: Path | None = option("--image FILE", "fused image that lies on the surface: .tif or .ome.tif")
    line: Any = option("--line X0 Y0 X1 Y1", "line of a profile: columns and rows of its ends, in pixels")
    stride: int | None = option("--stride N", "take every Nth row and column (default: 4 million points at most)")
    pixel_size: float | None = option("--pixel-size D", "side of a pixel in the unit of the heights, if the file does not state it")
    folders: Sequence[Path] = option("DIR*", "folders of outputs, searched with their subfolders (default: the current one)", default=())
    unfinished: bool = switch("--jobs", "also remove unfinished runs, which --resume could continue")

    words: Sequence[str] = ()
    """The command line, as reports repeat it."""

    @property
    def is_verbose(self) -> bool:
        """Return whether lines for people are printed."""
        return not (self.quiet or self.json)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command: its help, its options in their order, those with another spelling or help than usual, and text below the help."""

    help: str
    options: str
    respelled: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    epilog: str = ""


_CHOICE = "exclude order image axes time channels strict_chunks scratch"
_FUSING = (
    "preset config assignments focus_range split_time align reference transforms even_exposure "
    "memory workers scheduler resume dry_run overwrite quiet json"
)
_DISCARD = spell("--overwrite", "replace existing output files, and discard an unfinished run")

COMMANDS = {
    "info": Command(
        help="show what a file contains and how it would be fused: run this first",
        options=f"images {_CHOICE} headers json",
        respelled={"json": spell("--json", "print one JSON object")},
    ),
    "fuse": Command(
        help="fuse images of one scene into one that is sharp everywhere",
        options=f"images {_CHOICE} output guide maps depth z_step z_unit depth_smoothing slab slab_overlap slab_folder {_FUSING}",
        respelled={"overwrite": _DISCARD},
    ),
    "batch": Command(
        help="fuse every stack below a folder, and list the outcome of each",
        options=f"root output pattern suffix maps depth z_step z_unit depth_smoothing slab slab_overlap {_CHOICE} {_FUSING}",
        respelled={
            "output": spell("-o --output OUT", "folder for the results; it is created if it does not exist", type=to_path, required=True),
            "maps": spell("--maps", "also write the maps of every stack"),
            "depth": spell("--depth", "also write the heights of every stack"),
            "overwrite": _DISCARD,
        },
    ),
    "align": Command(
        help="align the images of a stack, and write the aligned stack",
        options=f"images {_CHOICE} output align reference transforms even_exposure crop workers overwrite quiet json",
        respelled={
            "output": spell(
                "-o --output OUT", "aligned stack: .ome.zarr, .ome.tif, .tif; see below for files", type=to_path, required=True
            ),
            "align": spell(
                "--model --align",
                "how the images may have moved (default: similarity, or what the file of --transforms says)",
                choices=MODELS,
            ),
            "workers": spell("--workers N", "windows resampled at once; does not change the result (default: one per core)", type=_count),
            "json": spell("--json", "print one JSON object with times, memory, transforms and output paths"),
        },
        epilog="""\
output:
  sample type and axes (Z, channels, Y, X) are kept; pixels outside an aligned image repeat its nearest edge sample
  a name with {frame} in it, such as aligned/{frame}.png, writes one numbered file per image, in any format of qmcif fuse
""",
    ),
    "demo": Command(
        help="generate a focus stack with a known truth, fuse it and compare",
        options="output overwrite",
        respelled={"output": spell("-o --output DIR", "folder for the images (default: qmcif-demo)")},
    ),
    "evaluate": Command(
        help="score a fused image against its sources and, if known, the sharp reference image",
        options="images fused truth border sample_range json",
        respelled={
            "images": spell("SOURCE+", "the images that were fused, two or more"),
            "json": spell("--json", "print one JSON object with all digits"),
        },
    ),
    "benchmark": Command(
        help="fuse and score a whole data set, beside other methods",
        options="dataset output presets assignments methods fused_by published border jobs ablation overwrite",
        respelled={
            "output": spell("-o --output REPORT_DIR", "folder for the report; an earlier run there is resumed", required=True),
            "assignments": spell("--set KEY=VALUE", "change one setting of every preset", action="append"),
            "border": spell(
                "--border PX",
                "also score the images without their outermost PX pixels, in a table of its own, and leave as much out of the inner PSNR",
                type=_count,
            ),
            "overwrite": spell("--overwrite", "replace a report on other data or with other settings"),
        },
        epilog="""\
data sets:
  NAME_a.png, NAME_b.png, further letters for further images, NAME_truth.png where the sharp image is known;
  or one folder per set, its images in the order of their names, truth.png among them the truth
names of --method:
  sr, csr, mgimf, qhosvd: the methods in the paper's comparison that are not neural networks; guided-filter, laplacian-pyramid: simple ones
images of --fused-by:
  named NAME, or with NAME between separators: 01.png, 01_fused.png, lytro_01_cnn.png
""",
    ),
    "surface": Command(
        help="write heights as a surface for 3-D programs, or a profile along a line",
        options="heights output texture line stride pixel_size overwrite",
        respelled={
            "output": spell("-o --output OUT", "surface: .stl, .obj or .ply; profile along a line: .csv", type=to_path, required=True)
        },
    ),
    "clean": Command(
        help="list and remove what killed runs left behind",
        options="folders scratch unfinished dry_run json",
        respelled={
            "scratch": spell("--scratch DIR", "folder of decoded copies (default: the system's)"),
            "dry_run": spell("--dry-run", "list only, remove nothing"),
            "json": spell("--json", "print one JSON object with paths, sizes and outcomes"),
        },
    ),
}
