"""One layer for previews: in place, and replaced by the next."""

from __future__ import annotations

from typing import NamedTuple

from napari.layers import Layer
from napari.viewer import Viewer

from napari_qmcif.aligning import WorkerTalk
from napari_qmcif.chosen_stack import ChosenStack
from napari_qmcif.layer_fusing import Outcome, fuse_area
from napari_qmcif.layers import describe_fused, name_part
from napari_qmcif.preview_area import Area
from napari_qmcif.provenance import record_provenance
from qmcif_engine import FusionConfig


class Preview(NamedTuple):
    """What was previewed together with how and where."""

    stack: ChosenStack
    config: FusionConfig
    area: Area
    outcome: Outcome


def compute_preview(stack: ChosenStack, config: FusionConfig, area: Area, *, job: WorkerTalk) -> Preview:
    """Fuse one part of a stack; runs in a worker thread."""
    return Preview(stack, config, area, fuse_area(stack, config, area=area, job=job))


class PreviewLayer:
    """Previews in a viewer, one at a time."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._layer: Layer | None = None

    @property
    def layer(self) -> Layer | None:
        """The layer, unless there is none yet or the user deleted it."""
        return self._layer if self._layer is not None and self._layer in self._viewer.layers else None

    def show(self, preview: Preview) -> None:
        """Put a preview where it belongs; the layer is kept where it can hold it, so that what the user set on it stays."""
        stack, fused = preview.stack, preview.outcome.pictures["fused"]
        record = record_provenance(stack, preview.config, focus_range=preview.outcome.focus_range)
        name = name_part(stack.title, "preview")
        arguments = describe_fused(stack, name=name, part="preview", record={**record, "area": list(preview.area)})
        placement = stack.placement.shifted((preview.area.top, preview.area.left)).as_layer_arguments()
        layer = self.layer
        if layer is not None and (layer.rgb, layer.data.dtype) == (stack.is_color, fused.dtype):
            layer.data = fused
            for key, value in {**placement, "name": arguments["name"], "metadata": arguments["metadata"]}.items():
                setattr(layer, key, value)
            return
        self.remove()
        active = self._viewer.layers.selection.active
        self._layer = self._viewer.add_image(fused, **{**arguments, **placement})
        self._viewer.layers.selection.active = active

    def remove(self) -> None:
        """Take the preview away."""
        if self.layer is not None:
            self._viewer.layers.remove(self.layer)
