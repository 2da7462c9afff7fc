"""``qmcif info``: what is in a file as we see it, before anything is fused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.stacks import open_inputs
from qmcif_engine.cli.terminal import one_line
from qmcif_engine.errors import ExecutionError, ImageFileError, InvalidConfigError, InvalidImageError, QmcifError
from qmcif_engine.io.input.file_stack import FileStack
from qmcif_engine.io.remote_path import Location
from qmcif_engine.run.measurement import measure_range_and_noise
from qmcif_engine.stack.alignment.suggestion import suggest_alignment
from qmcif_engine.stack.deciding import EACH
from qmcif_engine.stack.exposure import suggest_even_exposure
from qmcif_engine.stack.samples import FocusRange, list_bounds

LONGEST_TEXT = 200
"""Characters of a description that the lines of text show."""


def run(options: Request) -> None:
    """Describe the named inputs: together where they are the images of one stack, else one by one.

    Raises
    ------
    ImageFileError
        At the end, when one of them cannot be fused.
    """
    described = [_describe(options.images, options)]
    if "refused" in described[0] and len(options.images) > 1:
        described = [_describe([path], options) for path in options.images]
    if options.json:
        # NaN is no JSON: a figure that is none is a fault here
        print(json.dumps(described[0] if len(described) == 1 else {"inputs": described}, allow_nan=False))
    else:
        print("\n\n".join("\n".join(_write_lines(content)) for content in described))
    n_refused = sum("refused" in content for content in described)
    if n_refused:
        msg = f"{n_refused} of {len(described)} inputs cannot be fused as they are; the reasons are given with them"
        raise ImageFileError(msg)


def _describe(paths: Sequence[Location], options: Request) -> dict[str, Any]:
    """Return what is known of a stack, or why it is refused."""
    chosen = replace(options, images=paths)
    warnings = []
    try:
        try:
            stack = open_inputs(chosen)
        except InvalidConfigError as error:
            if options.channels is not None:
                raise
            stack = open_inputs(replace(chosen, channels=EACH))  # there are more channels than decide together
            warnings.append(one_line(error))
        with stack:
            content = _describe_header(stack, paths)
            if not options.headers:
                content |= _describe_samples(stack, warnings)
            return content | {"warnings": warnings}
    except ExecutionError:  # a server that does not answer is no fault of the file
        raise
    except QmcifError as error:
        return {"files": [str(path) for path in paths], "refused": one_line(error)}


def _describe_header(stack: FileStack, paths: Sequence[Location]) -> dict[str, Any]:
    """Return what is known without reading a sample."""
    shown, metadata = stack.companions or stack, stack.metadata
    height, width, *channels = shown.image_shape
    n_channels = channels[0] if channels else 1
    axes = {"T": stack.n_times, "Z": stack.n_images, "C": n_channels, "Y": height, "X": width}
    kept = {axis: length for axis, length in axes.items() if length > 1 or axis in "ZYX"}
    fused = {axis: length for axis, length in kept.items() if axis != "Z"}
    return {
        "files": [str(path) for path in paths],
        "image_name": metadata.image_name,
        "description": metadata.description,
        "stored_axes": stack.axes or None,
        "axes": "".join(kept),
        "shape": list(kept.values()),
        "dtype": stack.dtype.name,
        "alpha": stack.alpha is not None,
        "significant_bits": metadata.significant_bits,
        "channels": [_describe_channel(stack, number) for number in range(n_channels)],
        "channels_are_separate": metadata.has_separate_channels,
        "pixel_size": metadata.pixel_size,
        "z_step": metadata.z_step,
        "unit": metadata.unit,
        "time_step_seconds": metadata.time_step,
        "fused_axes": "".join(fused),
        "fused_shape": list(fused.values()),
        "decides": _describe_decision(stack),
        "scratch_bytes": stack.scratch_bytes,
    }


def _describe_channel(stack: FileStack, number: int) -> dict[str, Any]:
    found = stack.metadata
    looks = {
        "name": found.channel_names,
        "color": found.channel_colors,
        "limits": found.channel_limits,
        "emission_nm": found.channel_emissions_nm,
    }
    return {name: values[number] if len(values) > number else None for name, values in looks.items()}


def _describe_decision(stack: FileStack) -> str:
    if stack.decides_each:
        return "each channel for itself"
    if stack.companions is None:
        return "all samples together"
    deciding = [channel for channel in stack.deciding_channels if channel >= 0]
    if len(deciding) == stack.companions.image_shape[2]:
        return "all channels together"
    return f"channels {', '.join(str(channel + 1) for channel in deciding)} for all"


def _describe_samples(stack: FileStack, warnings: list[str]) -> dict[str, Any]:
    """Return range and noise as a run would choose them, and add its hints to the warnings."""
    stack.expect_all()
    try:
        focus_range, noise_levels = measure_range_and_noise(stack)
    except InvalidImageError as error:
        warnings.append(one_line(error))
        return {"focus_range": None, "noise_levels": None}
    pairs = (focus_range,) if isinstance(focus_range, FocusRange) else focus_range
    if all(bounds.low == bounds.high for bounds in pairs):
        warnings.append("all samples are equal, so there is nothing to decide on: check the input")
    suggestions: list[Any] = [suggest_even_exposure(stack), suggest_alignment(stack)]
    warnings += [suggestion.message for suggestion in suggestions if suggestion is not None]
    return {"focus_range": list_bounds(focus_range), "noise_levels": [round(level, 2) for level in noise_levels]}


def _write_lines(content: dict[str, Any]) -> list[str]:
    files = content["files"]
    lines = [files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"]
    if "refused" in content:
        return [*lines, f"  refused     {content['refused']}"]
    rows = {
        "name": content["image_name"],
        "description": " ".join((content["description"] or "").split())[:LONGEST_TEXT],
        "axes": _join(content["axes"], content["shape"]),
        "samples": content["dtype"] + (", with alpha" if content["alpha"] else ""),
        "channels": ", ".join(_write_channel(channel) for channel in content["channels"] if any(channel.values())),
        "pixel": _write_scale(content),
        "range": _write_ranges(content.get("focus_range")),
        "noise": _write_noise(content.get("noise_levels")),
        "fuses to": f"{_join(content['fused_axes'], content['fused_shape'])}; decided by {content['decides']}",
    }
    lines += [f"  {name:11} {text}" for name, text in rows.items() if text]
    return lines + [f"  warning     {warning}" for warning in content["warnings"]]


def _join(axes: str, shape: Sequence[int]) -> str:
    return " x ".join(f"{axis} {length}" for axis, length in zip(axes, shape, strict=True))


def _write_channel(channel: dict[str, Any]) -> str:
    limits = None if channel["limits"] is None else f"{channel['limits'][0]:g} to {channel['limits'][1]:g}"
    emission = None if channel["emission_nm"] is None else f"{channel['emission_nm']:g} nm"
    return " ".join(text for text in (channel["name"], channel["color"], limits, emission) if text)


def _write_scale(content: dict[str, Any]) -> str:
    parts = []
    if content["pixel_size"] is not None:
        height, width = content["pixel_size"]
        parts.append(f"{width:g} x {height:g} {content['unit']}")
    if content["z_step"] is not None:
        parts.append(f"z step {content['z_step']:g} {content['unit']}")
    if content["time_step_seconds"] is not None and "T" in content["axes"]:
        parts.append(f"{content['time_step_seconds']:g} s from one time point to the next")
    return ", ".join(parts)


def _write_ranges(focus_range: list[Any] | None) -> str:
    if focus_range is None:
        return ""
    pairs = focus_range if isinstance(focus_range[0], list) else [focus_range]
    return ", ".join(f"{low:g} to {high:g}" for low, high in pairs)


def _write_noise(levels: list[float] | None) -> str:
    return "" if levels is None else f"{', '.join(f'{level:g}' for level in levels)} of 255"
