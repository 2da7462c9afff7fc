"""The grammar of the command line; nothing here computes."""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from qmcif_engine import __version__
from qmcif_engine.cli.alignment_options import add_alignment, add_model
from qmcif_engine.cli.benchmark_options import add_benchmark
from qmcif_engine.cli.contributed_commands import add_contributed
from qmcif_engine.cli.garbage import loading
from qmcif_engine.cli.input_options import add_choice, add_input, to_location, to_path
from qmcif_engine.cli.quantities import parse_bytes
from qmcif_engine.cli.settings_help import describe_settings
from qmcif_engine.cli.stack_options import add_height_scale, add_heights, add_slab_size, add_slabs
from qmcif_engine.cli.surface_options import add_surface
from qmcif_engine.config.presets import PRESETS
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS, WRITTEN_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

_NUMBER_LIKE_AN_OPTION = re.compile(r"-(\d+\.|(\d+\.?\d*|\.\d+)e[+-]?\d+|inf|infinity|nan)", re.IGNORECASE)
"""Negative numbers beyond the plain ones, such as -3 and -0.5, that argparse knows."""


class _Parser(argparse.ArgumentParser):
    """A parser that refuses as the rest of the program does, in one line and without repeating the usage."""

    def error(self, message: str) -> NoReturn:
        msg = f"{message}; see {self.prog} --help"
        raise InvalidConfigError(msg)


def parse_command_line(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the options of the command that was typed; its ``run`` carries it out.

    Raises
    ------
    InvalidConfigError
        When something is unknown, missing or malformed.
    """
    words = _shield_negative_numbers(sys.argv[1:] if arguments is None else list(arguments))
    # not parse_args: its message would point to the help of the program, not of the command
    options, unknown = build_parser().parse_known_args(words)
    if unknown:
        options.refuse(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def _shield_negative_numbers(words: list[str]) -> list[str]:
    """Put a blank before numbers such as -1e3, which argparse takes for options; what converts to a number ignores it.

    Words behind ``--`` stay: they are names of files.
    """
    end = words.index("--") if "--" in words else len(words)
    return [f" {word}" if _NUMBER_LIKE_AN_OPTION.fullmatch(word) else word for word in words[:end]] + words[end:]


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands; each sets ``run`` to the function that carries it out."""
    parser: argparse.ArgumentParser = _Parser(prog="qmcif", description="Fuse focus stacks into one sharp image.")
    parser.add_argument("--version", action="version", version=f"qmcif {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_info(commands)
    _add_fuse(commands)
    _add_batch(commands)
    _add_align(commands)
    _add_demo(commands)
    _add_evaluate(commands)
    _add_benchmark(commands)
    _add_surface(commands)
    _add_clean(commands)
    add_contributed(partial(_add_command, commands))
    return parser


def _add_command(commands: Subparsers, name: str, help_text: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
    parser = commands.add_parser(
        name, help=help_text, description=help_text[0].upper() + help_text[1:] + ".", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=run, refuse=parser.error)
    return parser


def _add_info(commands: Subparsers) -> None:
    parser = _add_command(commands, "info", "show what a file contains and how it would be fused: run this first", _run_info)
    add_input(parser)
    parser.add_argument("--headers", action="store_true", help="read only the headers: no range, no noise, no hints")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_fuse(commands: Subparsers) -> None:
    parser = _add_command(commands, "fuse", "fuse images of one scene into one that is sharp everywhere", _run_fuse)
    parser.epilog = describe_settings()
    add_input(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=to_location,
        required=True,
        metavar="OUT",
        help="fused image: .ome.zarr (also s3://), .ome.tif, .tif, .png, .jpg",
    )
    parser.add_argument(
        "--guide",
        nargs="+",
        type=to_location,
        metavar="PATH",
        help="make decisions on this copy of the stack, for example a denoised one, and take the samples from INPUT; any kind of input",
    )
    maps = "; ".join(f"{name} ({OUTPUT_MAPS[name].meaning})" for name in WRITTEN_MAPS)
    parser.add_argument("--maps", type=to_path, metavar="DIR", help=f"also write maps as .tif here: {maps}")
    add_heights(parser)
    add_slabs(parser)
    _add_fusing(parser)
    parser.set_defaults(skips_finished=False)


def _add_batch(commands: Subparsers) -> None:
    parser = _add_command(commands, "batch", "fuse every stack below a folder, and list the outcome of each", _run_batch)
    parser.epilog = describe_settings()
    parser.add_argument(
        "root", type=to_path, metavar="ROOT", help="folder of the stacks; every folder below it that contains images is one"
    )
    parser.add_argument(
        "-o", "--output", type=to_path, required=True, metavar="OUT", help="folder for the results; it is created if it does not exist"
    )
    parser.add_argument(
        "--pattern",
        metavar="P",
        help="files below ROOT, such as '{group}_z{frame}.tif': {group} names a stack, {frame} numbers an image, * matches anything",
    )
    parser.add_argument("--suffix", default=".ome.tif", metavar="S", help="format of the fused images (default: %(default)s)")
    parser.add_argument("--maps", action="store_true", help="also write the maps of every stack")
    parser.add_argument("--depth", action="store_true", default=None, help="also write the heights of every stack")
    add_height_scale(parser)
    add_slab_size(parser)
    add_choice(parser)
    _add_fusing(parser)
    parser.set_defaults(guide=None)


def _add_fusing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=tuple(PRESETS), default="default", help="settings to start from (default: %(default)s)")
    parser.add_argument("--config", type=to_path, metavar="FILE", help="TOML file with settings that replace the preset's")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", dest="assignments", help="change one setting; may be repeated"
    )
    parser.add_argument(
        "--focus-range",
        action="append",
        type=float,
        nargs=2,
        metavar=("LOW", "HIGH"),
        help="sample values that count as black and white for decisions; repeat it to give each deciding channel its own range",
    )
    parser.add_argument("--split-time", action="store_true", help="write one file per time point (default: one file with a time axis)")
    add_alignment(parser)
    parser.set_defaults(keeps_channels=False)
    _add_running(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace existing output files, and discard an unfinished run")
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no summary")
    parser.add_argument("--json", action="store_true", help="print one JSON object with times, memory, settings and output paths")


def _add_align(commands: Subparsers) -> None:
    parser = _add_command(commands, "align", "align the images of a stack, and write the aligned stack", _run_align)
    parser.epilog = _ALIGN_HELP
    add_input(parser)
    parser.add_argument(
        "-o", "--output", type=to_path, required=True, metavar="OUT", help="aligned stack: .ome.zarr, .ome.tif, .tif; see below for files"
    )
    add_model(parser)
    parser.add_argument("--crop", action="store_true", help="keep only the largest rectangle that all images cover")
    parser.add_argument(
        "--workers", type=_count, metavar="N", help="windows resampled at once; does not change the result (default: one per core)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing output files")
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no summary")
    parser.add_argument("--json", action="store_true", help="print one JSON object with times, memory, transforms and output paths")
    parser.set_defaults(keeps_channels=True)


_ALIGN_HELP = """\
output:
  sample type and axes (Z, channels, Y, X) are kept; pixels outside an aligned image repeat its nearest edge sample
  a name with {frame} in it, such as aligned/{frame}.png, writes one numbered file per image, in any format of qmcif fuse
"""


def _add_running(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory",
        type=_memory,
        metavar="SIZE",
        help="memory for the tiles computed at once, such as 1GB; the program itself and images that are kept decoded, such as PNG and "
        "JPEG, need memory in addition (default: half of the free memory)",
    )
    parser.add_argument("--workers", type=_count, metavar="N", help="tiles computed at once (default: one per core)")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="compute on the Dask cluster at this address, such as tcp://host:8786")
    parser.add_argument("--resume", action="store_true", help="continue an interrupted run of the same images and settings")
    parser.add_argument("--dry-run", action="store_true", help="show what the run would need, and compute nothing")


def _memory(text: str) -> int:
    try:
        return parse_bytes(text)
    except InvalidConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        msg = f"{text!r} was given, a whole number of at least 1 is needed"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _add_demo(commands: Subparsers) -> None:
    parser = _add_command(commands, "demo", "generate a focus stack with a known truth, fuse it and compare", _run_demo)
    parser.add_argument(
        "-o", "--output", type=to_path, default=Path("qmcif-demo"), metavar="DIR", help="folder for the images (default: %(default)s)"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing output files")


def _add_evaluate(commands: Subparsers) -> None:
    parser = _add_command(
        commands, "evaluate", "score a fused image against its sources and, if known, the sharp reference image", _run_evaluate
    )
    parser.add_argument("images", nargs="+", type=to_path, metavar="SOURCE", help="the images that were fused, two or more")
    parser.add_argument(
        "--fused", type=to_path, required=True, metavar="F", help="the image to score, of the same size and type as the sources"
    )
    parser.add_argument("--truth", type=to_path, metavar="T", help="the sharp reference image, if there is one")
    parser.add_argument("--border", type=int, metavar="PX", help="width of the border left out of the inner PSNR (default: 8)")
    parser.add_argument(
        "--sample-range", type=float, nargs=2, metavar=("LOW", "HIGH"), help="sample values of black and white; needed for floats"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with all digits")


def _add_benchmark(commands: Subparsers) -> None:
    add_benchmark(_add_command(commands, "benchmark", "fuse and score a whole data set, beside other methods", _run_benchmark))


def _add_surface(commands: Subparsers) -> None:
    add_surface(_add_command(commands, "surface", "write heights as a surface for 3-D programs, or a profile along a line", _run_surface))


def _add_clean(commands: Subparsers) -> None:
    parser = _add_command(commands, "clean", "list and remove what killed runs left behind", _run_clean)
    parser.add_argument(
        "folders",
        nargs="*",
        type=to_path,
        metavar="DIR",
        help="folders of outputs, searched with their subfolders (default: the current one)",
    )
    parser.add_argument("--scratch", type=to_path, metavar="DIR", help="folder of decoded copies (default: the system's)")
    parser.add_argument("--jobs", action="store_true", help="also remove unfinished runs, which --resume could continue")
    parser.add_argument("--dry-run", action="store_true", help="list only, remove nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object with paths, sizes and outcomes")


def _run_info(options: argparse.Namespace) -> None:
    from qmcif_engine.cli.info_command import run

    run(options)


def _run_fuse(options: argparse.Namespace) -> None:
    with loading():
        from qmcif_engine.cli.fuse_command import run
    run(options)


def _run_align(options: argparse.Namespace) -> None:
    with loading():
        from qmcif_engine.cli.align_command import run
    run(options)


def _run_batch(options: argparse.Namespace) -> None:
    with loading():
        from qmcif_engine.cli.batch_command import run
    run(options)


def _run_demo(options: argparse.Namespace) -> None:
    with loading():
        from qmcif_engine.cli.demo_command import run
    run(options)


def _run_evaluate(options: argparse.Namespace) -> None:
    from qmcif_engine.cli.evaluate_command import run

    run(options)


def _run_benchmark(options: argparse.Namespace) -> None:
    from qmcif_engine.cli.benchmark_command import run

    run(options)


def _run_surface(options: argparse.Namespace) -> None:
    from qmcif_engine.cli.surface_command import run

    run(options)


def _run_clean(options: argparse.Namespace) -> None:
    from qmcif_engine.cli.clean_command import run

    run(options)
