"""Declaration of settings with bounds and help text, and the checks that every configuration shares."""

from __future__ import annotations

import dataclasses
import math
import sys
import tomllib
from dataclasses import field, fields
from enum import StrEnum
from numbers import Integral
from typing import Any, NoReturn, TypeVar, get_type_hints

from qmcif_engine.errors import InvalidConfigError

_T = TypeVar("_T")


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
            # the way into a frozen dataclass while it is made
            object.__setattr__(self, item.name, value)


_WANTED = {int: "a whole number", float: "a finite number", bool: "true or false"}


def _refuse(name: str, value: object, wanted: str) -> NoReturn:
    msg = f"setting {name} is {value!r}; {wanted}"
    raise InvalidConfigError(msg) from None


def _checked(item: dataclasses.Field[Any], kind: type, value: Any) -> Any:  # noqa: ANN401 - any settings value
    """Return the value in its declared type, or refuse it."""
    name, about = item.name, item.metadata
    if dataclasses.is_dataclass(kind):
        return value if isinstance(value, kind) else _refuse(name, value, f"a {kind.__name__} is needed: build one from its fields")
    if issubclass(kind, StrEnum):
        return kind(value) if value in tuple(kind) else _refuse(name, value, f"choose one of: {', '.join(kind)}")
    value = _plain_number(value, kind)
    is_finite = not isinstance(value, float) or math.isfinite(value)
    # not isinstance: true and false are integers in Python
    if type(value) is not kind or not is_finite:
        _refuse(name, value, f"{_WANTED[kind]} is needed: {about['help']}")
    low, high, choices = about["low"], about["high"], about["choices"]
    if choices and value not in choices:
        _refuse(name, value, f"choose one of: {', '.join(map(str, choices))}")
    if low is not None and not low <= value <= high:
        bounds = " and ".join(str(bound) if isinstance(bound, int) else f"{bound:g}" for bound in (low, high))
        _refuse(name, value, f"it must lie between {bounds}: {about['help']}")
    return value


def _plain_number(value: Any, kind: type) -> Any:  # noqa: ANN401 - any settings value
    """Return numbers of other libraries, such as NumPy's, as Python's own; whole numbers as floats where those are needed."""
    if type(value) is not bool and isinstance(value, Integral):
        # unless it is too large to be one
        return float(value) if kind is float and abs(int(value)) <= sys.float_info.max else int(value)
    return float(value) if isinstance(value, float) else value


def parse_value(name: str, kind: type, text: str) -> Any:  # noqa: ANN401 - any settings value
    """Read the text of one value, as a command line gives it, into the type of its setting."""
    truth = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
    try:
        return truth[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        wanted = f"one of {', '.join(kind)}" if issubclass(kind, StrEnum) else _WANTED[kind]
        _refuse(name, text, f"{wanted} is needed: correct the value")


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML text into nested sections for `FusionConfig.updated`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        msg = f"the configuration is not valid TOML ({error}); tables such as [decision] with name = value lines are needed: correct it"
        raise InvalidConfigError(msg) from error
