"""The depths that a fusion found: as a surface seen from the side, and as heights with a unit."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pint
from magicgui.widgets import CheckBox, ComboBox, FloatSpinBox, PushButton, SpinBox
from napari.layers import Layer
from napari.types import LayerDataTuple
from napari.viewer import Viewer

from napari_qmcif import layers_out as out
from napari_qmcif.aligning import align_images, drop_opacity
from napari_qmcif.form_parts import LayerBox
from napari_qmcif.layers_in import ChosenStack, Placement, finest_level
from napari_qmcif.work_row import Page, WorkRow
from napari_qmcif.worker import EngineWorker
from qmcif_engine import InvalidImageError, QmcifError, fuse, height_map

LENGTHS = ("micrometer", "nanometer", "millimeter")
VIEW_DIRECTION, UP_DIRECTION = (-1.0, -0.9, 0.15), (1.0, -0.9, 0.0)
"""From above the lower edge and a little from the left, so that heights are seen from the side; z, y, x."""

TILTED_ZOOM = 0.65
"""What fits seen from above does not when it is tilted."""

LARGEST_N_CORNERS = 250_000
"""More would make turning the surface slow; larger maps are thinned out."""


def is_depth_map(layer: Layer) -> bool:
    """Return whether a layer holds depths: a source map, or heights of ours."""
    return out.is_index_map(layer) or out.part_of(layer) == "height"


def make_surface(depth: Any) -> tuple[Any, Any, int]:  # noqa: ANN401 - any array
    """Return the surface of a map, shape (Y, X), of numbers of images, whole or between them.

    That is corners (V, 3) in pixels and images, triangles (F, 3), and by how much the map was thinned out.
    """
    stride = 1
    while -(-depth.shape[0] // stride) * -(-depth.shape[1] // stride) > LARGEST_N_CORNERS:
        stride += 1
    thinned = np.asarray(depth[::stride, ::stride], np.float32)
    n_rows, n_columns = thinned.shape
    # in pixels of the whole map, so that a thinned surface lies over it
    rows, columns = np.mgrid[:n_rows, :n_columns] * stride
    corners = np.stack([thinned.ravel(), rows.ravel(), columns.ravel()], axis=1).astype(np.float32)
    number = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    first, right, below, across = (part.ravel() for part in (number[:-1, :-1], number[:-1, 1:], number[1:, :-1], number[1:, 1:]))
    triangles = np.concatenate([np.stack([first, right, below], 1), np.stack([right, across, below], 1)])
    return corners, triangles, stride


def color_surface(layer: Layer | None, stride: int, *, depths: tuple[float, float], place: out.Place = ()) -> dict[str, Any]:
    """Return the layer arguments that paint a thinned out surface like an image on its map, or by depth where there is none."""
    if layer is None:
        # napari takes no equal limits, which a flat surface would have
        return {"colormap": "turbo", "contrast_limits": (depths[0], max(depths[1], depths[0] + 1e-6)), "shading": "smooth"}
    if not layer.rgb:
        return {"colormap": layer.colormap, "contrast_limits": tuple(layer.contrast_limits), "shading": "none"}
    samples = np.asarray(finest_level(layer)[place][::stride, ::stride])
    # colors of corners go from 0 to 1
    white = np.iinfo(samples.dtype).max if samples.dtype.kind == "u" else 1
    return {"vertex_colors": samples[..., :3].reshape(-1, 3) / np.float32(white), "shading": "none"}


def show_depth(
    viewer: Viewer,
    index: Layer,
    painted: Layer | None = None,
    *,
    z_step: float = 1.0,
    unit: str = "pixel",
    exaggerate: float = 1.0,
    hide_others: bool = True,
) -> None:
    """Show depths as a surface at the right scale, in place of an earlier one, and look at it from the side.

    Parameters
    ----------
    viewer : napari.Viewer
    index : napari.layers.Image
        Which image each pixel was taken from, or heights, whose own scale is taken.
    painted : napari.layers.Image, optional
        What the surface is painted with; its depth where left out.
    z_step, unit : float, str
        Distance between neighboring images. Heights grow along the stack; negative where the first image is the nearest.
    exaggerate : float
        Draws heights larger than they are; 1 is the right scale.
    hide_others : bool
        Whether other layers are hidden.
    """
    check_maps(index, painted)
    # an earlier surface goes first: it is neither to be hidden nor to be brought back
    show_flat(viewer)
    place, place_painted = (out.find_place(layer, viewer.dims.point) for layer in (index, painted))
    corners, triangles, stride = make_surface(finest_level(index)[place])
    values = corners[:, 0]
    if painted is not None and not painted.rgb:
        # colors are given by corner instead, see `color_surface`
        values = np.asarray(finest_level(painted)[place_painted][::stride, ::stride]).ravel()
    heights = out.read_record(index).get("height", {}) if out.part_of(index) == "height" else {}
    # heights without a unit count images
    step = (_convert(1.0, heights["unit"], index) if heights.get("unit") else _convert(z_step, unit, index)) * exaggerate
    limits = (float(corners[:, 0].min()), float(corners[:, 0].max()))
    hidden = [layer for layer in viewer.layers if layer.visible] if hide_others else []
    for layer in hidden:
        layer.visible = False
    viewer.add_surface(
        (corners, triangles, values),
        name=f"{_title(index)}{out.name_place(index, place)}: surface",
        metadata={out.METADATA_KEY: {"part": "surface"}, "qmcif_hidden": [str(layer.unique_id) for layer in hidden]},
        **Placement.of_layer(index).with_depth(step, start=0.0, unit=str(index.units[-1]), label="z"),
        **color_surface(painted, stride, depths=limits, place=place_painted),
    )
    # the camera is turned last: fitting the view turns it back
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    camera = viewer.scene.camera
    camera.set_view_direction(view_direction=VIEW_DIRECTION, up_direction=UP_DIRECTION)
    camera.zoom *= TILTED_ZOOM


def show_flat(viewer: Viewer) -> None:
    """Take the surface away, and go back to the images that it hid."""
    for surface in [layer for layer in viewer.layers if out.part_of(layer) == "surface"]:
        viewer.layers.remove(surface)
        for layer in viewer.layers:
            layer.visible |= str(layer.unique_id) in surface.metadata.get("qmcif_hidden", ())
    if viewer.dims.ndisplay == 3:
        viewer.dims.ndisplay = 2
        viewer.reset_view()


class HeightWork(NamedTuple):
    """What heights are made of: the layers of a result by part, the distance of its images, and a stack to look between them.

    Of a result with several images, such as one per time point, `place` is the one that is meant. `look` is that of the layer to be made.
    """

    parts: dict[str, Layer]
    place: out.Place
    stack: ChosenStack | None
    z_step: float
    smoothing_px: int
    look: dict[str, Any]


def map_heights(work: HeightWork, *, job: EngineWorker) -> list[LayerDataTuple]:
    """Return a layer of heights in the unit of the z step, shape (Y, X); smoothed ones keep the edges of the fused image."""
    images = {
        part: finest_level(layer)[work.place] for part, layer in work.parts.items() if part in ("source_index", "confidence", "fused")
    }
    index = np.asarray(images["source_index"])
    position: Any = index
    known: Any = np.asarray(images.get("confidence", np.ones(index.shape)), np.float32)
    if work.stack is not None:
        job.note("looking between the images")
        config, focus_range = out.read_settings(work.parts["fused"])
        opened = align_images(work.stack.cut_images(), work.stack, job=job)
        options: dict[str, Any] = {"focus_range": focus_range, "on_progress": job.report, "is_cancelled": job.is_cancelled}
        again: Any = fuse(opened, config, with_position=True, **options)
        # where a person has retouched the source map, that is the position
        position, known = np.where(again.source_index == index, again.position, index.astype(np.float32)), again.confidence
    guide = np.asarray(drop_opacity(images["fused"])) if "fused" in images else None
    # smoothing takes a while and cannot be cancelled
    job.check_cancelled()
    heights = height_map(position, z_step=work.z_step, confidence=known, guide=guide, smoothing_px=work.smoothing_px).height
    colors = out.choose_colors("height", (float(heights.min()), float(heights.max())))
    return [LayerDataTuple((np.asarray(heights, np.float32), {**work.look, **colors}, "image"))]


class DepthView(Page):
    """Surface and height map of one result, with the scale that it records."""

    def __init__(self, napari_viewer: Viewer) -> None:
        tip = "Which image each pixel was taken from, or heights"
        self.depth_map = LayerBox(napari_viewer, is_depth_map, label="Depth map", tooltip=tip)
        tip = "What the surface is painted with; its depth where left out"
        self.painted = LayerBox(napari_viewer, out.is_fused_or_flat, label="Paint with", nullable=True, tooltip=tip)
        tip = "Distance between neighboring images; negative where the first image is the nearest"
        self.z_step = FloatSpinBox(label="Z step", value=1.0, min=-1e9, max=1e9, step=1e-4, tooltip=tip)
        self.unit = ComboBox(label="Unit", choices=("pixel", *LENGTHS))
        tip = "Draws heights larger than they are; 1 is the right scale"
        self.exaggerate = FloatSpinBox(label="Exaggerate", value=1.0, min=1e-3, max=1e6, tooltip=tip)
        self.hide_others = CheckBox(text="Hide other layers", value=True)
        self.show_button, self.flat_button = PushButton(text="Show in 3-D"), PushButton(text="Back to 2-D")
        tip = "Radius in pixels over which neighbors of like brightness are averaged; 0 leaves the heights as they are"
        self.smoothing = SpinBox(label="Smoothing", value=4, max=32, tooltip=tip)
        tip = "Find the focus between neighboring images, too: the stack is fused once more for that"
        self.between_images = CheckBox(text="Between images", tooltip=tip)
        choices: list[Any] = [self.depth_map, self.painted, self.z_step, self.unit, self.exaggerate, self.hide_others]
        choices += [self.show_button, self.flat_button, self.smoothing, self.between_images]
        super().__init__(napari_viewer, choices, WorkRow(self._make_heights, text="Make height map"))
        self.z_step.native.setStepType(self.z_step.native.StepType.AdaptiveDecimalStepType)
        self.depth_map.changed.connect(self.find_scale)
        self.painted.changed.connect(self.check)
        self.show_button.changed.connect(self.show_surface)
        self.flat_button.changed.connect(lambda: show_flat(napari_viewer))
        self.find_scale()

    def reset_choices(self, *_: Any) -> None:  # noqa: ANN401 - events
        """Offer the layers there are now, and the units of the chosen one."""
        # offering the layers anew may take the unit of the result again; the one that was chosen stays
        unit = self.unit.value
        super().reset_choices()
        self._list_units(unit)
        self.check()

    def find_scale(self) -> None:
        """Take the fused image and the distance of the images from the result, as far as it records them."""
        index = self.depth_map.value
        if index is not None:
            z_step, unit = out.read_record(index).get("z_step") or (1.0, str(index.units[-1]))
            self.z_step.value = z_step
            self._list_units(unit)
            self.painted.value = out.find_parts(index, list(self._viewer.layers)).get("fused")
        self.check()

    def check(self) -> None:
        """Report in place what stands in the way, and allow what nothing stands in the way of."""
        self.row.check(self._check)

    def _check(self) -> str:
        self.show_button.enabled = False
        check_maps(self.depth_map.value, self.painted.value)
        self.show_button.enabled = True
        if not out.is_index_map(self.depth_map.value):
            msg = "another height map needs a source map: choose it above"
            raise InvalidImageError(msg)
        return ""

    def show_surface(self) -> None:
        """Show the surface; refusals are shown in place."""
        scale = {"z_step": self.z_step.value, "unit": self.unit.value, "exaggerate": self.exaggerate.value}
        try:
            show_depth(self._viewer, self.depth_map.value, self.painted.value, **scale, hide_others=self.hide_others.value)
        except QmcifError as error:
            self.row.message.show_error(error)

    def _make_heights(self) -> EngineWorker:
        """Make heights in a unit of length from a result, and add them as a layer."""
        index, layers = self.depth_map.value, list(self._viewer.layers)
        parts = {"source_index": index, **out.find_parts(index, layers)}
        fused, place = parts.get("fused"), out.find_place(index, self._viewer.dims.point)
        stack = out.find_sources(fused, layers, place=place) if self.between_images.value and fused is not None else None
        if self.between_images.value and stack is None:
            msg = f"the images behind {index.name!r} are not there; they are needed to look between them: open them, or leave that out"
            raise InvalidImageError(msg)
        stack = None if stack is None else out.prepare_alike(stack, fused)
        scale = {"z_step": self.z_step.value, "unit": self.unit.value, "smoothing_px": self.smoothing.value}
        look = {
            "name": f"{_title(index)}{out.name_place(index, place)}: height in {self.unit.value}",
            "rgb": False,
            "metadata": {out.METADATA_KEY: {**out.read_record(index), "part": "height", "height": scale}},
            **Placement.of_layer(index).as_layer_arguments(),
        }
        work = HeightWork(parts, place, stack, self.z_step.value, self.smoothing.value, look)
        return EngineWorker(map_heights, work, on_return=partial(out.add_layers, self._viewer))

    def _list_units(self, wanted: str) -> None:
        """Offer units of length for a map that has one, else its own unit only."""
        index = self.depth_map.value
        if index is not None:
            own = str(index.units[-1])
            # pixels have no length: a z step in micrometers could not be drawn to scale
            lengths = [unit for unit in LENGTHS if unit != own] if index.units[-1].is_compatible_with(LENGTHS[0]) else []
            self.unit.choices = [own, *lengths]
            self.unit.value = wanted if wanted in self.unit.choices else own


def _title(index: Layer) -> str:
    return str(index.name).rpartition(": ")[0] or str(index.name)


def check_maps(index: Layer | None, painted: Layer | None) -> None:
    """Refuse a layer that holds no depths, and an image of another size to paint them with."""
    if index is None or not is_depth_map(index):
        msg = "there is no source map; one is needed: fuse a stack first"
        raise InvalidImageError(msg)
    sizes = [finest_level(layer).shape[layer.ndim - 2 : layer.ndim] for layer in (index, painted) if layer is not None]
    if painted is not None and sizes[0] != sizes[1]:
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
