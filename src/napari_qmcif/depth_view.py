"""The depths that a fusion found: as a surface seen from the side, and as heights with a unit."""

from typing import Annotated, Any

import numpy as np
import pint
from magicgui import magic_factory
from magicgui.widgets import Container, FunctionGui, PushButton
from napari.layers import Image, Layer
from napari.viewer import Viewer

from napari_qmcif.chosen_stack import finest_level
from napari_qmcif.file_actions import ask_and_save
from napari_qmcif.height_layers import HeightWork, color_surface, describe_height_layer, make_surface, map_heights, place_surface
from napari_qmcif.layer_box import LayerComboBox, OptionalImage, is_index_map, list_layers, part_of
from napari_qmcif.number_box import NumberBox
from napari_qmcif.provenance import read_record
from napari_qmcif.result_parts import find_parts, find_place, find_sources, name_place
from napari_qmcif.work_row import WorkRow
from napari_qmcif.worker import EngineWorker, make_worker
from qmcif_engine import InvalidImageError, QmcifError

LENGTHS = ("micrometer", "nanometer", "millimeter")
VIEW_DIRECTION, UP_DIRECTION = (-1.0, -0.9, 0.15), (1.0, -0.9, 0.0)
"""From above the lower edge and a little from the left, so that heights are seen from the side; z, y, x."""

TILTED_ZOOM = 0.65
"""What fits seen from above does not when it is tilted."""


def is_depth_map(layer: Layer) -> bool:
    """Return whether a layer tells depths: a source index, or heights of ours."""
    return is_index_map(layer) or part_of(layer) == "height"


DepthMap = Annotated[Image, {"widget_type": LayerComboBox, "choices": list_layers(is_depth_map), "label": "Depth map"}]
ZStep = Annotated[float, {"widget_type": NumberBox, "min": -1e9, "max": 1e9}]
Unit = Annotated[str, {"choices": ("pixel", *LENGTHS)}]


@magic_factory(call_button="Show in 3-D", exaggerate={"widget_type": NumberBox, "min": 1e-3, "max": 1e6})
def show_depth(
    napari_viewer: Viewer,
    source_index: DepthMap,
    paint_with: OptionalImage = None,
    z_step: ZStep = 1.0,
    unit: Unit = "pixel",
    exaggerate: float = 1.0,
    hide_others: bool = True,
) -> None:
    """Show depths as a surface at the right scale, in place of an earlier one, and look at it from the side.

    Parameters
    ----------
    napari_viewer : napari.Viewer
    source_index : napari.layers.Image
        Which image each pixel was taken from, or heights that `make_height_map` made, whose own scale is taken.
    paint_with : napari.layers.Image, optional
        What the surface is painted with; its depth where left out.
    z_step : float
        Distance between neighboring images. Heights grow along the stack; negative where the first image is the nearest.
    unit : str
        Unit of the z step and of the heights.
    exaggerate : float
        Draws heights larger than they are; 1 is the right scale.
    hide_others : bool
        Whether other layers are hidden.
    """
    _check_map(source_index)
    if paint_with is not None:
        _check_size(source_index, paint_with)
    # an earlier surface goes first: it is neither to be hidden nor to be brought back
    show_flat(napari_viewer)
    place, painted = (find_place(layer, napari_viewer.dims.point) for layer in (source_index, paint_with))
    made = make_surface(finest_level(source_index)[place])
    values = made.corners[:, 0]
    if paint_with is not None and not paint_with.rgb:
        # colors are given by corner instead, see `color_surface`
        values = np.asarray(finest_level(paint_with)[painted][:: made.stride, :: made.stride]).ravel()
    heights = read_record(source_index).get("height", {}) if part_of(source_index) == "height" else {}
    # heights without a unit count images
    step = (_convert(1.0, heights["unit"], source_index) if heights.get("unit") else _convert(z_step, unit, source_index)) * exaggerate
    limits = (float(made.corners[:, 0].min()), float(made.corners[:, 0].max()))
    hidden = [layer for layer in napari_viewer.layers if layer.visible] if hide_others else []
    for layer in hidden:
        layer.visible = False
    napari_viewer.add_surface(
        (made.corners, made.triangles, values),
        name=f"{source_index.name.rpartition(': ')[0] or source_index.name}{name_place(source_index, place)}: surface",
        metadata={"qmcif": {"part": "surface"}, "qmcif_hidden": [layer.name for layer in hidden]},
        **place_surface(source_index, z_step=step),
        **color_surface(paint_with, made.stride, depths=limits, place=painted),
    )
    # the camera is turned last: fitting the view turns it back
    napari_viewer.dims.ndisplay = 3
    napari_viewer.reset_view()
    camera = napari_viewer.scene.camera
    camera.set_view_direction(view_direction=VIEW_DIRECTION, up_direction=UP_DIRECTION)
    camera.zoom *= TILTED_ZOOM


def show_flat(viewer: Viewer) -> None:
    """Take the surface away, and go back to the images that it hid."""
    for surface in [layer for layer in viewer.layers if part_of(layer) == "surface"]:
        viewer.layers.remove(surface)
        for layer in viewer.layers:
            # by name: what was hidden may have been removed meanwhile
            layer.visible |= layer.name in surface.metadata.get("qmcif_hidden", ())
    if viewer.dims.ndisplay == 3:
        viewer.dims.ndisplay = 2
        viewer.reset_view()


@magic_factory(call_button="Make height map", smoothing_px={"label": "Smoothing", "min": 0, "max": 32})
def make_height_map(
    napari_viewer: Viewer,
    source_index: DepthMap,
    z_step: ZStep = 1.0,
    unit: Unit = "pixel",
    smoothing_px: int = 4,
    between_images: bool = False,
) -> EngineWorker:
    """Make a map of heights in a unit of length from a result, and add it as a layer.

    Parameters
    ----------
    napari_viewer : napari.Viewer
    source_index : napari.layers.Image
        Of a result whose other layers are still there.
    z_step, unit : float, str
        Distance between neighboring images.
    smoothing_px : int
        Radius in pixels over which neighbors of like brightness are averaged; 0 leaves the heights as they are.
    between_images : bool
        Find the focus between neighboring images, too: the stack is fused once more for that.

    Returns
    -------
    EngineWorker
        Under way; it adds the layer when it is done.
    """
    _check_map(source_index)
    parts = {"source_index": source_index, **find_parts(source_index, list(napari_viewer.layers))}
    fused, place = parts.get("fused"), find_place(source_index, napari_viewer.dims.point)
    stack = find_sources(fused, list(napari_viewer.layers), place=place) if between_images and fused is not None else None
    if between_images and stack is None:
        msg = f"the images behind {source_index.name!r} are not there; they are needed to look between them: open them, or leave that out"
        raise InvalidImageError(msg)
    work = HeightWork(parts=parts, place=place, stack=stack, z_step=z_step, unit=unit, smoothing_px=smoothing_px)
    worker = make_worker(map_heights, work)
    worker.returned.connect(lambda heights: napari_viewer.add_image(heights, **describe_height_layer(work, heights)))
    worker.start()
    return worker


class DepthView(Container[Any]):
    """Surface and height map of one result, with the scale that it says."""

    def __init__(self, napari_viewer: Viewer) -> None:
        self._viewer = napari_viewer
        self.surface: FunctionGui[..., Any] = show_depth(call_button=False)
        # the height map takes map and scale from the form of the surface, so that they are asked for once
        bound = {name: {"bind": lambda _, field=name: getattr(self.surface, field).value} for name in ("source_index", "z_step", "unit")}
        self.heights: FunctionGui[..., Any] = make_height_map(call_button=False, **bound)
        self.show_button, self.flat_button = PushButton(text="Show in 3-D"), PushButton(text="Back to 2-D")
        self.row, self.save_button = WorkRow(self.heights, text="Make height map"), PushButton(text="Save height map …")
        parts = [self.surface, self.show_button, self.flat_button, self.heights, self.row, self.save_button]
        super().__init__(widgets=parts, labels=False)
        for form in (self.surface, self.heights):
            form.margins = (0, 0, 0, 0)
        self.surface.source_index.changed.connect(self.find_scale)
        self.surface.paint_with.changed.connect(self.check)
        self.heights.between_images.changed.connect(self.check)
        self.show_button.changed.connect(self.show_surface)
        self.flat_button.changed.connect(lambda: show_flat(napari_viewer))
        self.save_button.changed.connect(self._save)
        self.find_scale()

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now, and the units of the chosen one."""
        # offering the layers anew may take the unit of the result again; the one that was chosen stays
        unit = self.surface.unit.value
        super().reset_choices()
        self._list_units(unit)
        self.check()

    def find_scale(self) -> None:
        """Take the fused image and the distance of the images from the result, as far as it says them."""
        index, form = self.surface.source_index.value, self.surface
        if index is not None:
            z_step, unit = read_record(index).get("z_step") or (1.0, str(index.units[-1]))
            form.z_step.value = z_step
            self._list_units(unit)
            form.paint_with.value = find_parts(index, list(self._viewer.layers)).get("fused")
        self.check()

    def _list_units(self, wanted: str) -> None:
        """Offer units of length for a map that has one, else its own unit only."""
        index = self.surface.source_index.value
        if index is not None:
            own = str(index.units[-1])
            # pixels have no length: a z step in micrometers could not be drawn to scale
            lengths = [unit for unit in LENGTHS if unit != own] if index.units[-1].is_compatible_with(LENGTHS[0]) else []
            self.surface.unit.choices = [own, *lengths]
            self.surface.unit.value = wanted if wanted in self.surface.unit.choices else own

    def check(self) -> None:
        """Report in place what stands in the way, and allow what nothing stands in the way of."""
        index, painted = self.surface.source_index.value, self.surface.paint_with.value
        reason = ""
        try:
            _check_map(index)
            if painted is not None:
                _check_size(index, painted)
        except QmcifError as error:
            reason = str(error)
        self.show_button.enabled = not reason
        self.save_button.enabled = any(part_of(layer) == "height" for layer in self._viewer.layers)
        if reason or not is_index_map(index):
            self.row.forbid(reason or "another height map needs a source index: choose it above")
        else:
            self.row.allow()

    def show_surface(self) -> None:
        """Show the surface; what is refused is said in place."""
        try:
            self.surface()
        except QmcifError as error:
            self.row.message.complain(error)

    def shut_down(self) -> None:
        """Stop what runs."""
        self.row.cancel()

    def _save(self) -> None:
        heights = [layer for layer in self._viewer.layers if part_of(layer) == "height"]
        if heights:
            self.row.attempt(lambda: ask_and_save(heights[-1], [], parent=self.native))


def _check_map(layer: Layer | None) -> None:
    if layer is None or not is_depth_map(layer):
        msg = "there is no source index; one is needed: fuse a stack first"
        raise InvalidImageError(msg)


def _check_size(index: Layer, painted: Layer) -> None:
    sizes = [finest_level(layer).shape[layer.ndim - 2 : layer.ndim] for layer in (index, painted)]
    if sizes[0] != sizes[1]:
        msg = f"{painted.name!r} and {index.name!r} differ in size; equal ones are needed: choose another image"
        raise InvalidImageError(msg)


def _convert(length: float, unit: str, layer: Any) -> float:  # noqa: ANN401 - a layer
    """Return a length in the unit of a layer's pixels."""
    try:
        return float(pint.Quantity(length, unit).to(str(layer.units[-1])).magnitude)
    except pint.DimensionalityError as error:
        msg = (
            f"the z step is in {unit} and {layer.name!r} in {layer.units[-1]}; units of one kind are needed: give the z step in the latter"
        )
        raise InvalidImageError(msg) from error
