"""What a run does with the chosen images: one table for the form, the public function and the copied commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from napari_qmcif.layers_out import ALIGNMENTS, MAP_NAMES

ALL, SHOWN = "all", "shown"
EACH = ""


_SCOPES = [("all times and channels", ALL), ("where the sliders stand", SHOWN)]
_FILE: dict[str, Any] = {"kind": Path, "mode": "w", "nullable": True}
_TIPS = {
    "align": "Move the images to coincide before they are fused; nothing is cropped.",
    "scope": "Fuse all time points and all channels, or one image at the place where the sliders stand, which can be retouched.",
    "decide_by": "The channel whose decisions all channels follow, or each for itself.",
    "even_exposure": "Bring every image to the brightness and color of the reference before they are fused.",
    "reference": "The image that stays as it is, counted from 1; 0 for the middle one.",
    "transforms": "A file of an alignment: used where it exists, else written with what Align finds.",
    "height_smoothing": "Radius in pixels over which heights are smoothed; steps are kept.",
    "destination": "The OME-Zarr folder to write tile by tile and open as a pyramid, for results larger than memory; empty for memory.",
    "slab": "Fuse groups of so many neighboring images first and keep the results beside the target; 0 for none.",
    "scheduler": "Address of a Dask scheduler, such as tcp://host:8786; local starts a cluster on this machine; empty for threads.",
}


def _option(default: Any, label: str, tooltip: str, *, kind: Any = None, group: str = "", **look: Any) -> Any:  # noqa: ANN401 - any value
    """Return a field with its row in the form: the fold it stands in, the type where the default does not tell it, options of magicgui."""
    metadata = {
        "group": group,
        "annotation": type(default) if kind is None else kind,
        "label": label,
        "options": {"tooltip": tooltip, **look},
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run; images and references are counted from 1, as people do."""

    align: str = _option("none", "Align", _TIPS["align"], widget_type="ComboBox", choices=ALIGNMENTS)
    axis: str = _option("", "Fuse along", "The axis along which the focus changes.", group="Channels", widget_type="OfferedBox")
    scope: str = _option(ALL, "Series", _TIPS["scope"], group="Channels", widget_type="ComboBox", choices=_SCOPES)
    decide_by: str = _option(EACH, "Decide by", _TIPS["decide_by"], group="Channels", widget_type="OfferedBox")
    even_exposure: bool = _option(False, "Even exposure", _TIPS["even_exposure"], group="Images")
    reference: int = _option(0, "Reference", _TIPS["reference"], group="Images", min=0, max=1_000_000)
    leave_out: str = _option("", "Leave out", "Images that are not fused, counted from 1, such as 1, 4-6.", group="Images")
    transforms: Path | None = _option(None, "Transforms", _TIPS["transforms"], group="Images", **_FILE, filter="Transforms (*.json)")  # noqa: RUF009
    confidence: bool = _option(False, "Confidence", "Add how certain the choice of each pixel is, hidden.", group="More results")
    scale_maps: bool = _option(False, "Maps of both scales", "Add the focus maps of both scales, hidden.", group="More results")
    height: bool = _option(False, "Heights", "Add the height of every pixel, in the unit of the stack's axis.", group="More results")
    height_smoothing: int = _option(0, "Smoothing", _TIPS["height_smoothing"], group="More results", min=0, max=32)
    destination: Path | None = _option(None, "Result", _TIPS["destination"], group="Keep on disk", **_FILE, filter="OME-Zarr (*.ome.zarr)")  # noqa: RUF009
    slab: int = _option(0, "Slabs of", _TIPS["slab"], group="Keep on disk", min=0, max=100_000)
    scheduler: str = _option("", "Scheduler", _TIPS["scheduler"], group="Keep on disk")

    @property
    def is_shown_only(self) -> bool:
        """Whether only the stack at the place of the sliders is fused."""
        return self.scope == SHOWN

    @property
    def map_names(self) -> tuple[str, ...]:
        """Maps that become layers beside the fused image: the source map, and those asked for."""
        wanted = {"source_index": True, "confidence": self.confidence}
        return tuple(name for name in MAP_NAMES if wanted.get(name, self.scale_maps))
