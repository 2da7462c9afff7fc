"""Declaration of settings with bounds and help text, and the checks that every configuration shares."""

from __future__ import annotations

import dataclasses
import math
import sys
import tomllib
from dataclasses import field, fields
from enum import StrEnum
from numbers import Integral
from typing import Any, TypeVar, get_type_hints

from qmcif_engine.errors import InvalidConfigError

_T = TypeVar("_T")

MOST_DOTS = 64
"""Dots in a line of settings: those of names and of numbers."""


def setting(
    default: _T, help_text: str, *, low: float | None = None, high: float | None = None, unit: str = "", choices: tuple[int, ...] = ()
) -> _T:
    """Declare a field together with what a form or a command line must know of it."""
    metadata = {"help": help_text, "low": low, "high": high, "unit": unit, "choices": choices}
    value: _T = field(default=default, metadata=metadata)
    return value


class Checked:
    """Base class of configurations whose fields are checked, by type, bounds and choices, when one is made."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Replace each value by its checked form."""
        # annotations are texts under `from __future__ import annotations`
        hints = get_type_hints(type(self))
        for item in fields(self):  # type: ignore[arg-type]
            value = _checked(item, hints[item.name], getattr(self, item.name))
            # the way into a frozen dataclass; nobody else has seen it yet
            object.__setattr__(self, item.name, value)


def _checked(item: dataclasses.Field[Any], kind: type, value: Any) -> Any:  # noqa: ANN401 - any settings value
    """Return the value in its declared type, or say what is wrong with it."""
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, kind):
            msg = f"setting {item.name} is {value!r}; a {kind.__name__} is needed: build one from its fields"
            raise InvalidConfigError(msg)
        return value
    if issubclass(kind, StrEnum):
        return _checked_choice(item.name, kind, value)
    value = _plain_number(value)
    # a whole number is fine where a float is needed, unless it is too large to be one
    if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
        value = float(value)
    # not isinstance: true and false are integers in Python
    if type(value) is not kind or (isinstance(value, float) and not math.isfinite(value)):
        msg = f"setting {item.name} is {value!r}; {_kind_name(kind)} is needed: {item.metadata['help']}"
        raise InvalidConfigError(msg)
    _check_bounds(item, value)
    return value


def _plain_number(value: Any) -> Any:  # noqa: ANN401 - any settings value
    """Return numbers of other libraries, such as NumPy's, as Python's own."""
    # before the integers, of which it is one
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    # NumPy's float64 is a float, but of another type than the setting's
    return float(value) if isinstance(value, float) else value


def _checked_choice(name: str, kind: type[StrEnum], value: Any) -> StrEnum:  # noqa: ANN401 - any settings value
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(member.value for member in kind)
        msg = f"setting {name} is {value!r}; choose one of: {choices}"
        raise InvalidConfigError(msg) from None


def _check_bounds(item: dataclasses.Field[Any], value: Any) -> None:  # noqa: ANN401 - any settings value
    low, high, choices = (item.metadata[key] for key in ("low", "high", "choices"))
    if choices and value not in choices:
        msg = f"setting {item.name} is {value!r}; choose one of: {', '.join(map(str, choices))}"
        raise InvalidConfigError(msg)
    if (low is not None and value < low) or (high is not None and value > high):
        msg = f"setting {item.name} is {value!r}; it must lie between {_shown(low)} and {_shown(high)}: {item.metadata['help']}"
        raise InvalidConfigError(msg)


def _shown(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def _kind_name(kind: type) -> str:
    return {int: "a whole number", float: "a finite number", bool: "true or false"}[kind]


def parse_value(name: str, kind: type, text: str) -> Any:  # noqa: ANN401 - any settings value
    """Read the text of one value, as a command line gives it, into the type of its setting."""
    truth = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return truth[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        wanted = f"one of {', '.join(member.value for member in kind)}" if issubclass(kind, StrEnum) else _kind_name(kind)
        msg = f"setting {name} is {text!r}; {wanted} is needed: correct the value"
        raise InvalidConfigError(msg) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML text into nested sections for `FusionConfig.updated`.

    Names of thousands of parts are refused unread: the parser's time and memory grow with the square of their number.
    """
    has_long_texts = '"""' in text or "'''" in text  # in which a line can begin like a comment and be none
    for number, line in enumerate(text.split("\n"), 1):
        is_comment = line.lstrip().startswith("#") and not has_long_texts
        if line.count(".") > MOST_DOTS and not is_comment:
            msg = f"line {number} of the configuration has {line.count('.')} dots; section and name alone are needed: correct it"
            raise InvalidConfigError(msg)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"the configuration is not valid TOML ({error}); tables such as [decision] with name = value lines are needed: correct it"
        raise InvalidConfigError(msg) from error
