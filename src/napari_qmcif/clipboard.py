"""The equivalent call of what the widget would run, for scripts and for the command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from napari_qmcif.chosen_stack import N_COLORS, ChosenStack
from napari_qmcif.result_parts import list_files
from qmcif_engine import InvalidImageError, QmcifError, open_stack

OUTPUT_NAME = "fused.tif"


def write_python(stack: ChosenStack, *, preset: str, changes: Mapping[str, Any]) -> str:
    """Return a script that gives the same result as Run."""
    paths, has_opacity = _list_paths(stack), stack.n_channels > N_COLORS
    if paths and stack.axis is None:
        listing = "\n".join(f"    {path!r}," for path in paths)
        given = f"open_stack(paths, exclude={_list_left_out(stack)})" if stack.left_out else "open_stack(paths)"
        # a file gives opacity apart from the colors, an array as its fourth channel
        images, opacity = f"paths = [\n{listing}\n]", "result.companions"
    elif has_opacity:
        images, given, opacity = _take_layers(stack), "open_stack(images, axes='YXS', channels=[1, 2, 3])", "result.companions[..., 3]"
    else:
        images, given, opacity = _take_layers(stack), "open_stack(images)" if stack.is_prepared else "images", ""
    if stack.is_prepared:
        given = f"prepare_stack({given}, {', '.join(_list_preparations(stack))})"
    names = [
        "PRESETS",
        "fuse",
        *(name for name in ("load_transforms", "open_stack", "prepare_stack") if f"{name}(" in given),
        "write_image",
    ]
    config = f"PRESETS[{preset!r}]"
    if changes:
        config += f".replaced({ {name: _plain(value) for name, value in changes.items()} })"
    further = f", alpha={opacity}" if has_opacity else ""
    return f"""\
from qmcif_engine import {", ".join(names)}

{images}
config = {config}
result = fuse({given}, config)
write_image({OUTPUT_NAME!r}, result.fused{further})
"""


def write_command(stack: ChosenStack, *, preset: str, changes: Mapping[str, Any]) -> str:
    """Return the command line that gives the same result as Run; refuse images that lie in no file, which a command cannot reach."""
    paths = _list_paths(stack)
    if not paths or not (stack.axis is None or _is_same_stack(paths, stack)):
        msg = "the images do not lie in files as they are shown; such files are needed for a command: save them first, or copy as Python"
        raise InvalidImageError(msg)
    words = ["qmcif", "fuse", *paths, "-o", OUTPUT_NAME, "--preset", preset]
    if stack.align != "none" and stack.transforms_file is None:
        words += ["--align", stack.align]
    if stack.transforms_file is not None:
        words += ["--transforms", str(stack.transforms_file)]
    if stack.reference is not None and stack.transforms_file is None:
        # people and the command line count from 1, Python from 0
        words += ["--reference", str(stack.reference + 1)]
    if stack.even_exposure:
        words.append("--even-exposure")
    for number in _list_left_out(stack):
        words += ["--exclude", str(number)]
    for name, value in changes.items():
        words += ["--set", f"{name.partition('.')[2]}={_assigned(value)}"]
    return shlex.join(words)


def _list_left_out(stack: ChosenStack) -> list[int]:
    return [number + 1 for number in stack.left_out]


def _list_preparations(stack: ChosenStack) -> list[str]:
    """Return the arguments of `prepare_stack`."""
    if stack.transforms_file is not None:
        options = [f"transforms=load_transforms({str(stack.transforms_file)!r})"]
    else:
        options = [f"align={stack.align!r}"] * (stack.align != "none")
    options += [f"reference={stack.reference}"] * (stack.reference is not None and stack.transforms_file is None)
    return options + ["even_exposure=True"] * stack.even_exposure


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
    return stack.layers[0].ndim == 3 and (stored.n_images, stored.image_shape) == (
        stack.n_images + len(stack.left_out),
        (*stack.size_px, *channels),
    )


def _take_layers(stack: ChosenStack) -> str:
    """Return lines for napari's console, where ``viewer`` is known."""
    head = "# in napari's console, where `viewer` is this viewer\n"
    kind = "" if stack.dtype == stack.stored_dtype else f".astype({stack.dtype.name!r})"
    chosen = stack.layers if stack.axis is not None else [stack.layers[number] for number in stack.frame_numbers]
    arrays = [f"viewer.layers[{str(layer.name)!r}].data{'[0]' if layer.multiscale else ''}{kind}" for layer in chosen]
    if stack.axis is None:
        listing = "\n".join(f"    {array}," for array in arrays)
        return f"{head}images = [\n{listing}\n]"
    index = ["number" if axis == stack.axis else ":" if isinstance(item, slice) else str(item) for axis, item in enumerate(stack.index)]
    numbers = stack.frame_numbers if stack.left_out else f"range({stack.n_images})"
    return f"{head}stack = {arrays[0]}\nimages = [stack[{', '.join(index)}] for number in {numbers}]"


def _plain(value: Any) -> Any:  # noqa: ANN401 - any settings value
    return value.value if isinstance(value, StrEnum) else value


def _assigned(value: Any) -> str:  # noqa: ANN401 - any settings value
    # the command takes the words of TOML
    return str(value).lower() if isinstance(value, bool) else str(_plain(value))
