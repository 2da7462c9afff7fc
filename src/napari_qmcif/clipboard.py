"""What the form would run, as a script for napari's console and as a command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from napari.layers import Layer

from napari_qmcif.fusing import choose_images
from napari_qmcif.layers_in import ChosenStack, list_axes
from napari_qmcif.layers_out import list_files
from napari_qmcif.preferences import ALL, RunOptions
from qmcif_engine import InvalidImageError, QmcifError, open_stack

OUTPUT_NAME = "fused.tif"


def write_python(layers: Sequence[Layer], options: RunOptions, *, preset: str, changes: Mapping[str, Any]) -> str:
    """Return a script for napari's console, where ``viewer`` is known, that adds the same layers as Run."""
    names = "\n".join(f"    viewer.layers[{str(layer.name)!r}]," for layer in layers)
    config = f"PRESETS[{preset!r}]"
    if changes:
        config += f".replaced({ {name: _plain(value) for name, value in changes.items()} })"
    given = {item.name: getattr(options, item.name) for item in fields(options) if getattr(options, item.name) != item.default}
    # a path is written as text, which the function takes, too
    words = "".join(f", {name}={(str(value) if isinstance(value, Path) else value)!r}" for name, value in given.items())
    return f"""\
from napari.layers import Layer

from napari_qmcif import fuse_focus_stack
from qmcif_engine import PRESETS

layers = [
{names}
]
for result in fuse_focus_stack(layers, {config}{words}):
    viewer.add_layer(Layer.create(*result))
"""


def options_of(stack: ChosenStack) -> RunOptions:
    """Return the options that prepare the images of a stack as it says."""
    frames = stack.frame_numbers
    return RunOptions(
        axis="" if stack.axis is None else list_axes(stack.layers[0])[stack.axis],
        align=stack.align if stack.transforms_file is None else "none",
        even_exposure=stack.even_exposure,
        reference=0 if stack.reference is None else frames[stack.reference] + 1,
        leave_out=", ".join(str(number + 1) for number in stack.left_out),
        transforms=stack.transforms_file,
    )


def write_command(layers: Sequence[Layer], options: RunOptions, *, preset: str, changes: Mapping[str, Any]) -> str:
    """Return the command line that gives the same result as Run; refuse images that lie in no file, which a command cannot reach."""
    # all time points and channels of a file are what the command takes
    stack = choose_images(layers, replace(options, scope=ALL)).first
    paths = _list_paths(stack)
    if not paths or not (stack.axis is None or _is_same_stack(paths, stack)):
        msg = "the images do not lie in files as they are shown; such files are needed for a command: save them first, or copy as Python"
        raise InvalidImageError(msg)
    words = ["qmcif", "fuse", *paths, "-o", OUTPUT_NAME, "--preset", preset]
    if stack.transforms_file is not None:
        words += ["--transforms", str(stack.transforms_file)]
    else:
        words += ["--align", stack.align] * (stack.align != "none")
        # people and the command line count from 1, Python from 0
        words += [] if stack.reference is None else ["--reference", str(stack.reference + 1)]
    words += ["--even-exposure"] * stack.even_exposure
    for number in stack.left_out:
        words += ["--exclude", str(number + 1)]
    for name, value in changes.items():
        # the command takes the words of TOML
        words += ["--set", f"{name.partition('.')[2]}={str(value).lower() if isinstance(value, bool) else _plain(value)}"]
    return shlex.join(words)


def _list_paths(stack: ChosenStack) -> list[str]:
    """Return the files of the layers, in their order, or none where they have no own ones."""
    listed = [list_files(layer) for layer in stack.layers]
    paths = [str(path) for files in listed for path in files]
    # several layers of one file are its channels, say, which the file's name alone does not tell apart
    return paths if all(listed) and len(set(paths)) == len(paths) else []


def _is_same_stack(paths: list[str], stack: ChosenStack) -> bool:
    """Return whether a file holds what the layer shows: of a stack put together from several files, napari remembers the first only."""
    channels = (stack.n_channels,) if stack.is_color else ()
    try:
        stored = open_stack(paths[0] if len(paths) == 1 else paths)
    except QmcifError:
        return False
    shown = stack.n_images + len(stack.left_out), (*stack.size_px, *channels)
    return stack.layers[0].ndim == 3 and (stored.n_images, stored.image_shape) == shown


def _plain(value: Any) -> Any:  # noqa: ANN401 - any settings value
    return value.value if isinstance(value, StrEnum) else value
