"""Files of transforms, for another run, another channel or another stack of the same frames."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.limits import LARGEST_TRANSFORMS_BYTES, parse_json, read_bounded
from qmcif_engine.io.output.placement import check_place, place_files
from qmcif_engine.stack.alignment.transforms import AlignmentWarning, Matrix, TransformModel, Transforms, as_matrix

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
    check_place(target, overwrite=overwrite)
    place_files({target: lambda stream: stream.write(text)}, overwrite=overwrite)


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
        content = parse_json(read_bounded(Path(path), largest_bytes=LARGEST_TRANSFORMS_BYTES))
        return tuple(_parse(point) for point in _list_points(content))
    except (OSError, ValueError, TypeError, OverflowError) as error:
        needed = "a file written by save_transforms is needed, or by --align with --transforms"
        msg = f"{str(path)!r} holds no usable transforms ({error}); {needed}: estimate them again"
        raise InvalidConfigError(msg) from error


def _list_points(content: Any) -> list[Any]:  # noqa: ANN401 - whatever the file holds
    if not isinstance(content, dict) or content.get("format") != _FORMAT_OF_TIMES:
        return [content]
    if set(content) != {"format", "times"} or not content["times"]:
        msg = "one object with format and times, at least one, is expected"
        raise ValueError(msg)
    return list(content["times"])


def _parse(content: Any) -> Transforms:  # noqa: ANN401 - whatever the file holds
    """Return the transforms of one stack; they check themselves what no stack can have."""
    if not isinstance(content, dict) or set(content) != set(_KEYS):
        msg = f"one object with {', '.join(_KEYS)} is expected"
        raise ValueError(msg)
    if content["format"] != _FORMAT:
        msg = f"its format is {str(content['format'])[:40]!r} and not {_FORMAT!r}"
        raise ValueError(msg)
    model = TransformModel(content["model"])
    height, width = content["image_shape"]
    return Transforms(
        matrices=tuple(_parse_matrix(rows, model) for rows in np.array(content["matrices"], np.float64)),
        model=model,
        image_shape=(index(height), index(width)),
        reference=index(content["reference"]),
        warnings=tuple(AlignmentWarning(index(number), str(text)) for number, text in content["warnings"]),
    )


def _parse_matrix(rows: NDArray[np.float64], model: TransformModel) -> Matrix:
    if rows.shape != (3, 3):
        msg = "matrices of 3 x 3 numbers are expected"
        raise ValueError(msg)
    # a homography has a free last row but for its scale, which the corner fixes; the other models have none
    if rows[2].tolist() != [0, 0, 1] and (model is not TransformModel.HOMOGRAPHY or rows[2, 2] != 1):
        msg = "the last row of a matrix is not 0, 0, 1"
        raise ValueError(msg)
    return as_matrix(rows)
