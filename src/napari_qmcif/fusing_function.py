"""The fusion as a function of layers, and as the form that magicgui makes of it."""
# annotations stay evaluated: magicgui reads them

import re
import time
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import psutil
from magicgui import magic_factory
from magicgui.widgets import FunctionGui
from napari.layers import Image
from napari.qt.threading import FunctionWorker
from napari.types import LayerDataTuple
from napari.viewer import Viewer

from napari_qmcif.chosen_stack import finest_level, guess_focus_axis
from napari_qmcif.layer_box import LayerSelect, OfferedBox, is_source, list_layers, shorten_list
from napari_qmcif.layer_fusing import FusionRequest, fuse_series
from napari_qmcif.layers import Run, describe_channel, number_run
from napari_qmcif.own_outputs import PYRAMID_SUFFIX
from napari_qmcif.preferences import keep, read_preferences
from napari_qmcif.progress_display import DockEntry
from napari_qmcif.provenance import note_channels, record_provenance
from napari_qmcif.settings_form import SettingsForm, describe_changes
from napari_qmcif.stack_series import StackSeries, choose_series, list_axes
from napari_qmcif.worker import make_worker
from qmcif_engine import FusionConfig, InvalidConfigError, InvalidImageError, load_transforms

ALL, SHOWN = "all", "shown"
EACH = ""
SLABS_NEED_A_PLACE = "slabs were asked for and the result goes into memory; they are kept on disk: name a place under Result"
SHARE_OF_FREE_MEMORY = 0.5
"""The rest is for the computation itself and for the viewer."""

MAP_PIXEL_BYTES = 10
"""Source index, base map and detail map of two bytes per pixel, confidence of four."""


def choose_images(
    layers: Sequence[Any],
    axis: str,
    *,
    scope: str = ALL,
    decide_by: str = EACH,
    align: str = "none",
    even_exposure: bool = False,
    reference: int = 0,
    leave_out: str = "",
    transforms: Path | None = None,
    point: Sequence[float] | None = None,
) -> StackSeries:
    """Return what is to be fused, prepared as the arguments of `fuse_focus_stack` say; nothing is read but a file of transforms."""
    series = choose_series(layers, axis, decide_by=decide_by, point=point if scope == SHOWN else None)
    numbers = parse_numbers(leave_out, n_images=series.first.n_images)
    if reference in [number + 1 for number in numbers]:
        msg = f"image {reference} is left out and is the reference too; one that is fused is needed: choose another"
        raise InvalidConfigError(msg)
    series = series.changed(left_out=numbers)
    frames = series.first.frame_numbers
    if len(frames) < 2:
        msg = f"{len(frames)} of {len(frames) + len(numbers)} images are left; at least 2 are needed: leave fewer out"
        raise InvalidConfigError(msg)
    if reference > 0 and reference - 1 not in frames:
        msg = f"image {reference} was given as the reference; the stack has {frames[-1] + 1}: choose one of them, or 0 for the middle one"
        raise InvalidConfigError(msg)
    known = load_transforms(transforms) if transforms is not None and transforms.is_file() else None
    if transforms is not None and known is None:
        _check_can_write(transforms, series, align)
    prepared = {"align": align, "even_exposure": even_exposure, "transforms": known, "transforms_file": transforms if known else None}
    return series.changed(**prepared, reference=frames.index(reference - 1) if reference > 0 else None)


def _check_folder(target: Path) -> None:
    """Refuse a place in a folder that is not there, before anything is aligned or fused for it."""
    if not target.parent.is_dir():
        msg = f"the folder {str(target.parent)!r} does not exist; an existing one is needed: make it, or choose another"
        raise InvalidConfigError(msg)


def _check_can_write(transforms: Path, series: StackSeries, align: str) -> None:
    """Refuse a file of transforms that there will be nothing to write to, or more than it holds."""
    _check_folder(transforms)
    if align == "none":
        msg = f"{transforms.name!r} holds no transforms and nothing is aligned; one of both is needed: choose another file, or set Align"
        raise InvalidConfigError(msg)
    if series.n_fusions > 1:
        msg = (
            f"{series.n_fusions} stacks are aligned and {transforms.name!r} holds the transforms of one: set Series to where the sliders "
            "stand to write them, and then fuse all with that file"
        )
        raise InvalidConfigError(msg)


def parse_numbers(text: str, *, n_images: int) -> tuple[int, ...]:
    """Return the images that a text such as ``1, 4-6`` names, 0-based; refuse any other, and images that there are none of."""
    numbers: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", part)
        first, last = (int(found.group(1)), int(found.group(2) or found.group(1))) if found else (0, 0)
        if not 1 <= first <= last <= n_images:
            msg = f"{part!r} names no images of this stack; numbers from 1 to {n_images} are needed: write for example 1, 4-6"
            raise InvalidConfigError(msg)
        numbers |= set(range(first - 1, last))
    return tuple(sorted(numbers))


def settle_target(destination: Path | None, series: StackSeries, *, slab: int = 0) -> Path | None:
    """Return the OME-Zarr folder to write to, its suffix added, or None for memory.

    Where none is named, a result that does not fit into memory goes into the scratch folder of Preferences, or is refused without one.
    """
    preferred, needed = read_preferences(), estimate_bytes(series)
    free = int(psutil.virtual_memory().available * SHARE_OF_FREE_MEMORY)
    if destination is None and needed <= free:
        if slab:
            raise InvalidConfigError(SLABS_NEED_A_PLACE)
        return None
    if destination is None and preferred.scratch_folder is None:
        msg = (
            f"images and result take {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB may be used; a place on disk is needed: "
            "name one under Result, or a scratch folder in Preferences"
        )
        raise InvalidImageError(msg)
    place = destination.expanduser() if destination is not None else Path(preferred.scratch_folder or "") / series.channels[0].title
    _check_folder(place)
    return place.with_name(place.name.removesuffix(PYRAMID_SUFFIX) + PYRAMID_SUFFIX)


def estimate_bytes(series: StackSeries) -> int:
    """Return the memory of what has to be loaded and of the results."""
    stack = series.first
    height, width = stack.size_px
    image_bytes = height * width * stack.n_channels * stack.dtype.itemsize
    # arrays in memory cost nothing more, lazy ones are loaded
    n_lazy = 0 if all(isinstance(array, np.ndarray) for array in stack.arrays) else stack.n_images
    n_results = series.n_points * len(series.channels)
    return n_lazy * image_bytes + n_results * (image_bytes + height * width * MAP_PIXEL_BYTES)


def _connect_form(form: FunctionGui[..., Any]) -> None:
    """Adapt the choices that depend on the chosen layers."""
    form.destination.line_edit.native.setPlaceholderText("in memory")
    for place in (form.destination, form.transforms):
        place.choose_btn.text = "…"
    shorten_list(form.layers)
    form.layers.changed.connect(lambda: offer_for(form))
    offer_for(form)


def offer_for(form: FunctionGui[..., Any]) -> None:
    """Offer the axes and channels of the chosen layers; hide what they do not have."""
    layers = form.layers.value
    is_stack = bool(layers) and all(isinstance(layer, Image) and layer.ndim > 2 for layer in layers)
    names = list_axes(layers[0]) if is_stack else []
    shape = finest_level(layers[0]).shape if is_stack else ()
    guess = names[guess_focus_axis(layers[0])] if is_stack else ""
    form.axis.offer([(f"{name} ({length})", name) for name, length in zip(names, shape, strict=False)] or [("", "")], first=guess)
    try:
        series = choose_series(layers, str(form.axis.value or ""))
        titles = [channel.title for channel in series.channels]
    except Exception:  # what is wrong is said where Run is
        titles, series = [], None
    form.decide_by.offer([("each channel", EACH), *((title, title) for title in titles)] if len(titles) > 1 else [("each channel", EACH)])
    form.axis.visible = is_stack
    form.scope.visible = bool(series is not None and series.keeps_axes)
    form.decide_by.visible = len(titles) > 1


@magic_factory(
    widget_init=_connect_form,
    call_button="Run",
    scope={"label": "Series", "choices": [("all times and channels", ALL), ("where the sliders stand", SHOWN)]},
    reference={"min": 0, "max": 1_000_000},
    transforms={"mode": "w", "filter": "Transforms (*.json)", "nullable": True},
    with_maps={"label": "Focus maps"},
    with_height={"label": "Height map"},
    height_smoothing={"label": "Smoothing", "min": 0, "max": 32},
    slab={"label": "Slabs of", "min": 0, "max": 100_000},
    destination={"label": "Result", "mode": "w", "filter": f"OME-Zarr (*{PYRAMID_SUFFIX})", "nullable": True},
)
def fuse_focus_stack(
    napari_viewer: Viewer,
    layers: Annotated[list[Image], {"widget_type": LayerSelect, "choices": list_layers(is_source, from_top=False), "label": "Images"}],
    axis: Annotated[str, {"widget_type": OfferedBox, "label": "Fuse along"}] = "",
    scope: str = ALL,
    decide_by: Annotated[str, {"widget_type": OfferedBox}] = EACH,
    align: Literal["none", "translation", "similarity", "affine", "homography"] = "none",
    even_exposure: bool = False,
    reference: int = 0,
    leave_out: str = "",
    transforms: Path | None = None,
    settings: Annotated[FusionConfig | None, {"widget_type": SettingsForm}] = None,
    with_maps: bool = True,
    with_height: bool = False,
    height_smoothing: int = 0,
    slab: int = 0,
    scheduler: str = "",
    destination: Path | None = None,
) -> FunctionWorker[list[LayerDataTuple]]:
    """Fuse layers into images that are sharp everywhere, in a thread of their own, and add them to the viewer.

    Parameters
    ----------
    napari_viewer : napari.Viewer
        Whose layers they are.
    layers : list of napari.layers.Image
        Images of one scene, each sharp somewhere else; or one layer that holds them all; or several such layers, one per channel.
        Ctrl or Shift for several.
    axis : str
        The axis along which the focus changes.
    scope : str
        Fuse all time points and all channels, or one image at the place where the sliders stand, which can be retouched.
    decide_by : str
        The channel whose decisions all channels follow, or each for itself.
    align : str
        Move the images to coincide before they are fused; nothing is cropped.
    even_exposure : bool
        Bring every image to the brightness and color of the reference before they are fused.
    reference : int
        The image that stays as it is, counted from 1; 0 for the middle one.
    leave_out : str
        Images that are not fused, counted from 1, such as 1, 4-6.
    transforms : Path
        A file of an alignment: used where it exists, else written with what Align finds.
    settings : FusionConfig
        Settings of the method.
    with_maps : bool
        Add the focus maps of both scales, hidden; without them a run takes about a third of the time.
    with_height : bool
        Add the height of every pixel as a layer, in the unit of the stack's axis.
    height_smoothing : int
        Radius in pixels over which heights are smoothed; steps are kept.
    slab : int
        Fuse groups of so many neighboring images first and keep the results beside the target; 0 for none.
    scheduler : str
        Address of a Dask scheduler, such as tcp://host:8786; local starts a cluster on this machine; empty for threads.
    destination : Path
        The OME-Zarr folder to write tile by tile and open as a pyramid, for results larger than memory; empty for memory.
    """
    series = choose_images(
        layers,
        axis,
        scope=scope,
        decide_by=decide_by,
        align=align,
        even_exposure=even_exposure,
        reference=reference,
        leave_out=leave_out,
        transforms=transforms,
        point=napari_viewer.dims.point,
    )
    config = FusionConfig() if settings is None else settings
    target = settle_target(destination, series, slab=slab)
    request = FusionRequest(
        series=series,
        config=config,
        target=target,
        with_maps=with_maps,
        with_height=with_height,
        height_smoothing_px=height_smoothing,
        slab_size=slab,
        transforms_target=transforms if series.first.transforms is None else None,
        scheduler=scheduler.strip(),
        memory_bytes=read_preferences().memory_bytes,
    )
    # kept when they are used: what was only tried out is not brought back
    keep(config)
    return _start(request, napari_viewer)


def _start(request: FusionRequest, viewer: Viewer) -> FunctionWorker[list[LayerDataTuple]]:
    """Start a worker that is seen in the activity dock."""
    series = request.series
    titles = [channel.title for channel in series.channels]
    settings = ", ".join([describe_changes(request.config), *_describe_preparation(series)])
    run = number_run(titles, settings, taken=[layer.name for layer in viewer.layers])
    worker = make_worker(run_fusion, request, run, is_waited_for=request.target is not None)
    # kept alive by the signals of the worker
    DockEntry(worker, title=f"Fusing {titles[0]}")
    worker.returned.connect(partial(_uncover, series))
    worker.start()
    return worker


def _describe_preparation(series: StackSeries) -> list[str]:
    """Return in words what is done to the images before they are fused."""
    stack = series.first
    words = [f"aligned by {stack.transforms_file.stem}"] if stack.transforms_file is not None else [stack.align] * (stack.align != "none")
    return words + ["even exposure"] * stack.even_exposure + [f"{len(stack.left_out)} left out"] * bool(stack.left_out)


def _uncover(series: StackSeries, _: object) -> None:
    """Hide sources that would shine through their result: channels are shown as the sum of all that is visible."""
    for layer in [layer for channel in series.channels for layer in channel.stacks[0].layers]:
        layer.visible &= layer.blending in ("opaque", "translucent", "translucent_no_depth")


def run_fusion(request: FusionRequest, run: Run, *, job: Any) -> list[LayerDataTuple]:  # noqa: ANN401 - a worker
    """Fuse, and return the layers of the result; runs in a worker thread."""
    started_at, series, layers = time.monotonic(), request.series, []
    channels = note_channels(len(series.channels), uuid.uuid4().hex) if len(series.channels) > 1 else {}
    for number, found in enumerate(fuse_series(request, job=job)):
        stack = series.channels[number].stacks[0]
        z_step, unit = stack.z_step
        record = record_provenance(stack, request.config, focus_range=found.focus_range, path=found.path) | channels
        if request.with_height:
            counted = "" if stack.axis is None else "pixel"  # heights of separate images count images
            record["height"] = {"z_step": z_step, "unit": unit or counted, "smoothing_px": request.height_smoothing_px}
        layers += describe_channel(series, number, found.parts, record=record, z_step=z_step, run=run)
    n_fusions = "" if series.n_fusions == 1 else f", {series.n_fusions} times"
    job.remarks.insert(0, f"fused {series.first.n_images} images{n_fusions} in {time.monotonic() - started_at:.1f} s")
    return layers
