"""Carry out ``qmcif fuse``: read, fuse, write all outputs at once, report."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from qmcif_engine import __version__
from qmcif_engine.cli.maps import MAP_NAMES, collect_maps, list_map_paths
from qmcif_engine.cli.progress import progress_bar
from qmcif_engine.cli.resources import peak_memory_bytes
from qmcif_engine.cli.settings import gather_settings
from qmcif_engine.errors import ImageFileError
from qmcif_engine.io.placement import check_sources_kept
from qmcif_engine.io.readers import ImageFile, read_image
from qmcif_engine.io.writers import check_maps_target, check_target, write_outputs
from qmcif_engine.pipeline import fuse
from qmcif_engine.samples import as_stack

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


def run(options: Namespace) -> None:
    """Fuse the named files as the options say."""
    started_wall, started_cpu = time.perf_counter(), time.process_time()
    settings = gather_settings(preset_name=options.preset, config_file=options.config, assignments=options.assignments)
    _check_targets(options)
    files = [read_image(path) for path in options.images]
    stack = as_stack([file.samples for file in files], names=[repr(str(path)) for path in options.images])
    alphas = _common_alphas(files, options.images)
    check_target(options.output, overwrite=options.overwrite, samples_dtype=stack[0].dtype, has_alpha=alphas is not None)
    with progress_bar("fusing", is_quiet=options.quiet) as move:
        result = fuse(
            stack,
            settings,
            focus_range=_focus_range(files, options.focus_range),
            companions=alphas,
            on_progress=lambda progress: move(*progress),
        )
    write_outputs(
        options.output,
        result.fused,
        alpha=result.companions,
        maps_folder=options.maps,
        maps=collect_maps(result) if options.maps else {},
        overwrite=options.overwrite,
    )
    report = {
        "version": __version__,
        "images": len(stack),
        "shape": list(stack[0].shape),
        "dtype": stack[0].dtype.name,
        "wall_seconds": round(time.perf_counter() - started_wall, 3),
        "cpu_seconds": round(time.process_time() - started_cpu, 3),
        "peak_memory_bytes": peak_memory_bytes(),
        "focus_range": list(result.focus_range),
        "settings": settings.to_dict(),
        "outputs": [str(path) for path in _outputs(options)],
    }
    _render(report, options)


def _check_targets(options: Namespace) -> None:
    check_sources_kept(_outputs(options), options.images)
    check_target(options.output, overwrite=options.overwrite)
    if options.maps:
        check_maps_target(options.maps, MAP_NAMES, overwrite=options.overwrite, picture=options.output)


def _common_alphas(files: Sequence[ImageFile], paths: Sequence[Path]) -> list[NDArray[Any]] | None:
    """Return the alpha planes where all files have one, None where none has."""
    alphas = [file.alpha for file in files if file.alpha is not None]
    if alphas and len(alphas) < len(files):
        without = next(path for path, file in zip(paths, files, strict=True) if file.alpha is None)
        msg = f"{str(without)!r} has no alpha while others have; all or none is needed: add or remove the alpha channel"
        raise ImageFileError(msg)
    return alphas or None


def _focus_range(files: Sequence[ImageFile], given: Sequence[float] | None) -> tuple[float, float] | None:
    """Return the user's range, else that of the significant bits all files agree on, else None: the stack's own samples decide."""
    if given is not None:
        return given[0], given[1]
    bits = {file.significant_bits for file in files}
    common = bits.pop() if len(bits) == 1 else None
    return None if common is None else (0.0, float(2**common - 1))


def _outputs(options: Namespace) -> list[Path]:
    return [options.output, *(list_map_paths(options.maps) if options.maps else [])]


def _render(report: dict[str, Any], options: Namespace) -> None:
    if options.json:
        print(json.dumps(report))
    elif not options.quiet:
        print(f"fused {report['images']} images in {report['wall_seconds']:.1f} s: {', '.join(report['outputs'])}")
