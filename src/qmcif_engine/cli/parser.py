"""The grammar of the command line, made from the table of options."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field, fields
from enum import StrEnum
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

from qmcif_engine import __version__
from qmcif_engine.cli.options import COMMANDS, Command, Request
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import InvalidConfigError, MissingExtraError

GROUP = "qmcif.commands"
"""Entry points through which a package contributes a command: a light module with a line of help in ``HELP``, with
``add_arguments(parser)`` and with ``run(options)``, which does the heavy imports."""

_NUMBER_LIKE_AN_OPTION = re.compile(r"-(\d+\.|(\d+\.?\d*|\.\d+)e[+-]?\d+|inf|infinity|nan)", re.IGNORECASE)
"""Negative numbers beyond the plain ones, such as -3 and -0.5, that argparse knows."""

_FIELDS = {item.name: item.metadata for item in fields(Request)}


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are `InvalidConfigError` in one line, without the usage."""

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
    words = sys.argv[1:] if arguments is None else list(arguments)
    # not parse_args: its message would point to the help of the program, not of the command
    options, unknown = build_parser().parse_known_args(_shield_negative_numbers(words), argparse.Namespace(words=words))
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
    subparsers = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, help_text: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        added = subparsers.add_parser(
            name,
            help=help_text,
            description=f"{help_text[0].upper()}{help_text[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.add_argument("--debug", action="store_true", help="show the traceback of an error")
        added.set_defaults(run=run, refuse=added.error)
        return added

    for name, command in COMMANDS.items():
        _add_options(add(name, command.help, partial(_run, name)), command)
    for entry in sorted(entry_points(group=GROUP)):
        # light by agreement: it is loaded for every command, --help too
        module = entry.load()
        module.add_arguments(add(entry.name, module.HELP, partial(_run_contributed, module, entry)))
    return parser


def _add_options(parser: argparse.ArgumentParser, command: Command) -> None:
    names = command.options.split()
    parser.epilog = describe_settings() if "preset" in names else command.epilog
    for name in names:
        how = dict(command.respelled.get(name, _FIELDS[name]))
        flags = how.pop("flags")
        if flags:
            how["dest"] = name
        # suppressed: what is not given has the default of the request
        parser.add_argument(*(flags or [name]), **how, default=argparse.SUPPRESS)


def describe_settings() -> str:
    """Return two lines per setting, from the configuration itself."""
    lines = ["settings for --set and --config, with their defaults and allowed values:"]
    defaults = FusionConfig()
    for full_name, item in FusionConfig.setting_fields().items():
        section, _, name = full_name.partition(".")
        if full_name == "method.base_smoothness":
            lines.append("settings of the published method; all but representation act under rule=paper only:")
        default = getattr(getattr(defaults, section), name)
        unit = f" {item.metadata['unit']}" if item.metadata["unit"] else ""
        lines.append(f"  {name}={_show(default)}  ({_describe_domain(item, default)}{unit})\n      {item.metadata['help']}")
    return "\n".join(lines)


def _describe_domain(item: Field[Any], default: object) -> str:
    """Return the choices of a setting, or its bounds."""
    choices: Sequence[object] = item.metadata["choices"]
    if isinstance(default, bool):
        choices = (True, False)
    elif isinstance(default, StrEnum):
        choices = tuple(type(default))
    return ", ".join(map(_show, choices)) if choices else f"{_show(item.metadata['low'])} to {_show(item.metadata['high'])}"


def _show(value: object) -> str:
    """Return a value as ``--set`` takes it."""
    if isinstance(value, float):
        return f"{value:g}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _run(name: str, options: argparse.Namespace) -> None:
    request = Request(**{key: value for key, value in vars(options).items() if key in _FIELDS})
    # loads what the command needs, NumPy first of all, which the help does without
    import_module(f"qmcif_engine.cli.{name}_command").run(request)


def _run_contributed(module: Any, entry: EntryPoint, options: argparse.Namespace) -> None:  # noqa: ANN401 - a module
    try:
        module.run(options)
    except ModuleNotFoundError as error:
        msg = f"qmcif {entry.name} needs {error.name}, which is not installed; install it with: pip install 'napari-qmcif[napari]'"
        raise MissingExtraError(msg) from error
