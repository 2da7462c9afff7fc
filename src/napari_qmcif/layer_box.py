"""The choice of one layer out of those that fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from napari.layers import Image, Labels, Layer
from napari.viewer import Viewer

from napari_qmcif.provenance import METADATA_KEY
from napari_qmcif.setting_box import CalmComboBox


class LayerBox(CalmComboBox):
    """Offer the layers of a viewer that pass a test; what was chosen stays chosen, also under a new name.

    Parameters
    ----------
    viewer : napari.Viewer
    fits : callable
        Says whether a layer is offered.
    none_text : str, optional
        Offers to choose nothing, under this text.
    """

    def __init__(self, viewer: Viewer, *, fits: Callable[[Layer], bool], none_text: str = "") -> None:
        super().__init__()
        self._viewer, self._fits, self._none_text = viewer, fits, none_text
        self.refresh_layers()

    @property
    def layer(self) -> Any:  # noqa: ANN401 - a layer, or None
        """The chosen layer, or None."""
        return self.currentData()

    def choose(self, layer: Layer | None) -> None:
        """Choose a layer that is offered."""
        for row in range(self.count()):
            if self.itemData(row) == layer:  # not `is`: napari hands its plugins layers behind a proxy
                self.setCurrentIndex(row)

    def refresh_layers(self) -> None:
        """Offer the layers there are now, the topmost first."""
        chosen = self.layer
        self.blockSignals(True)
        self.clear()
        if self._none_text:
            self.addItem(self._none_text, None)
        for layer in reversed(self._viewer.layers):
            if self._fits(layer):
                self.addItem(str(layer.name), layer)
        self.choose(chosen)
        self.blockSignals(False)
        if self.layer != chosen:
            self.currentIndexChanged.emit(self.currentIndex())


def part_of(layer: Layer) -> str | None:
    """Return which part of one of our results a layer is, such as ``fused`` or ``source_index``; None for any other layer."""
    record = dict(layer.metadata).get(METADATA_KEY)
    part = record.get("part") if isinstance(record, dict) else None
    return part if isinstance(part, str) else None


def is_picture(layer: Layer) -> bool:
    """Say whether a layer is one picture, none of our maps and previews."""
    return isinstance(layer, Image) and layer.ndim == 2 and part_of(layer) in (None, "fused")


def is_index_map(layer: Layer) -> bool:
    """Say whether a layer may be a source index: whole numbers over two axes."""
    if not isinstance(layer, Image | Labels) or layer.ndim != 2 or (isinstance(layer, Image) and layer.rgb):
        return False
    return part_of(layer) in (None, "source_index") and layer.dtype.kind in "iu"
