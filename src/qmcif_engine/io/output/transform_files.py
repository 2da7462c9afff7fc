"""Files of transforms, for another run, another channel or another stack of the same frames."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Never

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.bounded_reading import parse_json, read_bounded
from qmcif_engine.io.limits import LARGEST_TRANSFORMS_BYTES
from qmcif_engine.io.output.placement import check_place, place_files
from qmcif_engine.stack.alignment.transforms import AlignmentWarning, Matrix, TransformModel, Transforms, as_matrix

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

_FORMAT = "qmcif transforms 1"
_FORMAT_OF_TIMES = "qmcif transforms of time points 1"
_KEYS = ("format", "model", "image_shape", "reference", "matrices", "warnings")


def save_transforms(path: str | os.PathLike[str], transforms: Transforms, *, overwrite: bool = False) -> None:
    """Write transforms as JSON; numbers come back to the last bit, and the file appears complete or not at all.

    Parameters
    ----------
    path : path-like
    transforms : Transforms
    overwrite : bool, optional
        Whether an existing file may be replaced.

    Raises
    ------
    OutputError
        When the file exists or cannot be written.
    """
    _place(Path(path), _describe(transforms), overwrite=overwrite)


def save_transforms_of_times(path: str | os.PathLike[str], transforms: Sequence[Transforms], *, overwrite: bool = False) -> None:
    """Write the transforms of all time points of a movie, in their order, as `save_transforms` does those of a stack."""
    _place(Path(path), {"format": _FORMAT_OF_TIMES, "times": [_describe(point) for point in transforms]}, overwrite=overwrite)


def _describe(transforms: Transforms) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "model": transforms.model.value,
        "image_shape": transforms.image_shape,
        "reference": transforms.reference,
        "matrices": transforms.matrices,
        "warnings": [[warning.number, warning.message] for warning in transforms.warnings],
    }


def _place(target: Path, content: dict[str, Any], *, overwrite: bool) -> None:
    text = json.dumps(content, indent=1).encode()

    def write(stream: BinaryIO) -> None:
        stream.write(text)

    check_place(target, overwrite=overwrite)
    place_files({target: write}, overwrite=overwrite)


def load_transforms(path: str | os.PathLike[str]) -> Transforms:
    """Read transforms that `save_transforms` wrote; anything else is refused.

    Raises
    ------
    InvalidConfigError
        When the file cannot be read or holds no valid transforms.
    """
    known = load_transforms_of_times(path)
    if len(known) != 1:
        msg = f"{str(path)!r} holds transforms of {len(known)} time points; those of one stack are needed: name another file"
        raise InvalidConfigError(msg)
    return known[0]


def load_transforms_of_times(path: str | os.PathLike[str]) -> tuple[Transforms, ...]:
    """Read the transforms of all time points, or of the only one.

    Raises
    ------
    InvalidConfigError
        When the file cannot be read or holds no valid transforms.
    """
    try:
        content = parse_json(read_bounded(Path(path), largest_bytes=LARGEST_TRANSFORMS_BYTES), parse_constant=_refuse_constant)
        if not isinstance(content, dict) or content.get("format") != _FORMAT_OF_TIMES:
            return (_parse(content),)
        return tuple(_parse(point) for point in _listed_points(content))
    except (OSError, ValueError) as error:
        needed = "a file written by save_transforms is needed, or by --align with --transforms"
        msg = f"{str(path)!r} holds no usable transforms ({error}); {needed}: estimate them again"
        raise InvalidConfigError(msg) from error


def _listed_points(content: dict[str, Any]) -> list[Any]:
    points = _listed(content.get("times"))
    if not points or set(content) != {"format", "times"}:
        msg = "one object with format and times, at least one, is expected"
        raise ValueError(msg)
    return points


def _refuse_constant(name: str) -> Never:
    msg = f"{name} is no number of a transform"
    raise ValueError(msg)


def _parse(content: Any) -> Transforms:  # noqa: ANN401 - checks what it is
    if not isinstance(content, dict) or set(content) != set(_KEYS):
        msg = f"one object with {', '.join(_KEYS)} is expected"
        raise ValueError(msg)
    if content["format"] != _FORMAT:
        msg = f"its format is {str(content['format'])[:40]!r} and not {_FORMAT!r}"
        raise ValueError(msg)
    height, width = _listed(content["image_shape"], length=2)
    model = TransformModel(content["model"])
    warnings = [_listed(warning, length=2) for warning in _listed(content["warnings"])]
    return Transforms(
        matrices=tuple(_parse_matrix(matrix, model) for matrix in _listed(content["matrices"])),
        model=model,
        image_shape=(_expect(height, "a whole number", int), _expect(width, "a whole number", int)),
        reference=_expect(content["reference"], "a whole number", int),
        warnings=tuple(AlignmentWarning(_expect(number, "a whole number", int), _expect(text, "a text", str)) for number, text in warnings),
    )


def _parse_matrix(value: Any, model: TransformModel) -> Matrix:  # noqa: ANN401 - checks what it is
    try:
        rows = [[float(_expect(entry, "a number", int, float)) for entry in _listed(row, length=3)] for row in _listed(value, length=3)]
    except OverflowError as error:
        msg = "a number is too large"
        raise ValueError(msg) from error
    # a homography has a free last row but for its scale, which the corner fixes; the other models have none
    if rows[2] != [0, 0, 1] and (model is not TransformModel.HOMOGRAPHY or rows[2][2] != 1):
        msg = "the last row of a matrix is not 0, 0, 1"
        raise ValueError(msg)
    return as_matrix(rows)


def _listed(value: Any, *, length: int | None = None) -> list[Any]:  # noqa: ANN401 - checks what it is
    listed: list[Any] = _expect(value, "a list" if length is None else f"a list of {length}", list)
    return listed if length in (None, len(listed)) else _expect(value, f"a list of {length}")


def _expect(value: Any, name: str, *kinds: type) -> Any:  # noqa: ANN401 - checks what it is
    """Return a value that is of one of the kinds, and of no kind derived from them: true is no whole number."""
    # not isinstance: true and false are integers in Python, and are no numbers of a transform
    if type(value) not in kinds:
        msg = f"{name} is expected where {str(value)[:40]!r} stands"
        raise ValueError(msg)
    return value
