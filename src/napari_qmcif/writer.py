"""Write pictures and whole results through the engine: completely or not at all, with scale and how they came about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_qmcif.layers import MAP_NAMES
from napari_qmcif.provenance import METADATA_KEY
from qmcif_engine import write_image

if TYPE_CHECKING:
    from napari.types import FullLayerData

N_COLORS = 3
UNWRITTEN = ("made", "path", "inputs", "part")
"""What a record has beyond the engine's own: times, places and names, which stay out of files."""


def write_picture(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:  # noqa: ANN401 - any array
    """Write one image layer in the format that the suffix names; a file of that name is replaced, as the dialog has asked.

    Parameters
    ----------
    path : str
        Ends in .ome.tif, .tif, .ome.zarr, .png or .jpg.
    data : array, shape (Y, X), (Y, X, 3) or (Y, X, 4), or a list of them from fine to coarse
        Lazy arrays are written block by block, where the format allows it.
    attributes : dict
        Of the layer.

    Returns
    -------
    list of str
        The path.
    """
    samples: Any = data[0] if attributes.get("multiscale") else data
    has_opacity = samples.ndim == 3 and samples.shape[-1] > N_COLORS
    write_image(
        path,
        samples[..., :N_COLORS] if has_opacity else samples,
        alpha=samples[..., N_COLORS] if has_opacity else None,
        provenance=_own_record(attributes),
        overwrite=True,
        **_find_scale(attributes),
    )
    return [path]


def write_result(path: str, layers: list[FullLayerData]) -> list[str]:
    """Write several image layers into a folder: pictures as OME-TIFF, our maps as TIFF under the names the engine gives them.

    Parameters
    ----------
    path : str
        A folder, made if it is missing.
    layers : list of (data, attributes, type)

    Returns
    -------
    list of str
        The files.
    """
    folder = Path(path)
    folder.mkdir(exist_ok=True)
    written: list[str] = []
    for data, attributes, _ in layers:
        record = attributes.get("metadata", {}).get(METADATA_KEY, {})
        part = record.get("part") if isinstance(record, dict) else None
        stem = re.sub(r"[^\w.-]+", "_", str(attributes["name"])).strip("._") or "picture"
        name = f"{part}.tif" if part in MAP_NAMES else f"{'fused' if part == 'fused' else stem}.ome.tif"
        written += write_picture(str(_unused(folder / name, written)), data, attributes)
    return written


def _unused(target: Path, written: list[str]) -> Path:
    """Return another name where one of this run has it already."""
    stem, _, suffix = target.name.partition(".")
    number, name = 1, target
    while str(name) in written:
        number += 1
        name = target.with_name(f"{stem}_{number}.{suffix}")
    return name


def _own_record(attributes: dict[str, Any]) -> dict[str, Any]:
    record = attributes.get("metadata", {}).get(METADATA_KEY, {})
    if not isinstance(record, dict):
        return {}
    return {"images" if name == "n_images" else str(name): value for name, value in record.items() if name not in UNWRITTEN}


def _find_scale(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return pixel size and unit where the layer has a unit of length."""
    units = [str(unit) for unit in attributes.get("units") or ()]
    scale = [float(size) for size in attributes.get("scale", ())]
    if len(units) != 2 or len(scale) != 2 or units[0] != units[1] or units[0] in ("pixel", "dimensionless"):
        return {}
    return {"pixel_size": (scale[0], scale[1]), "unit": units[0]}
