"""The fusion as a function of layers, and as the form that magicgui makes of it."""
# annotations stay evaluated: magicgui reads them

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from magicgui import magic_factory
from magicgui.widgets import FunctionGui
from napari.layers import Image
from napari.qt.threading import FunctionWorker
from napari.types import LayerDataTuple
from napari.viewer import Viewer

from napari_qmcif.chosen_stack import guess_focus_axis
from napari_qmcif.destination import Destination, settle_target
from napari_qmcif.layer_box import LayerSelect, OfferedBox, is_source, list_layers
from napari_qmcif.layer_fusing import FusionRequest, fuse_series
from napari_qmcif.layers import choose_label, describe_channel
from napari_qmcif.preferences import keep, read_preferences
from napari_qmcif.progress_display import DockEntry
from napari_qmcif.provenance import record_provenance
from napari_qmcif.settings_form import SettingsForm, describe_changes
from napari_qmcif.stack_series import StackSeries, choose_series, list_axes
from napari_qmcif.worker import make_worker
from qmcif_engine import FusionConfig, InvalidConfigError, load_transforms

ALL, SHOWN = "all", "shown"
EACH = ""
ROWS_SHOWN = 5
SLABS_NEED_A_PLACE = "slabs were asked for and the result goes into memory; they are kept on disk: set Result to OME-Zarr on disk"


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
    """Return what is to be fused, prepared as the arguments of `fuse_focus_stack` say; nothing is read but a file of transforms.

    Raises
    ------
    QmcifError
        With the reason and the remedy.
    """
    series = choose_series(layers, axis, decide_by=decide_by, point=point if scope == SHOWN else None)
    numbers = parse_numbers(leave_out, n_images=series.first.n_images)
    if reference in [number + 1 for number in numbers]:
        msg = f"image {reference} is left out and is the reference too; one that is fused is needed: choose another"
        raise InvalidConfigError(msg)
    series = series.changed(left_out=numbers)
    frames = series.first.frame_numbers
    if reference > 0 and reference - 1 not in frames:
        msg = f"image {reference} was given as the reference; the stack has {frames[-1] + 1}: choose one of them, or 0 for the middle one"
        raise InvalidConfigError(msg)
    if len(frames) < 2:
        msg = f"{len(frames)} image is left; at least 2 are needed: leave fewer out"
        raise InvalidConfigError(msg)
    known = load_transforms(transforms) if transforms is not None and transforms.is_file() else None
    prepared = {"align": align, "even_exposure": even_exposure, "transforms": known, "transforms_file": transforms if known else None}
    return series.changed(**prepared, reference=frames.index(reference - 1) if reference > 0 else None)


def parse_numbers(text: str, *, n_images: int) -> tuple[int, ...]:
    """Return the images that a text such as ``1, 4-6`` names, 0-based.

    Raises
    ------
    InvalidConfigError
        For anything else, and for images that there are none of.
    """
    numbers: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = re.fullmatch(r"(\d+)(?:\s*-\s*(\d+))?", part)
        first, last = (int(found.group(1)), int(found.group(2) or found.group(1))) if found else (0, 0)
        if not 1 <= first <= last <= n_images:
            msg = f"{part!r} names no images of this stack; numbers from 1 to {n_images} are needed: write for example 1, 4-6"
            raise InvalidConfigError(msg)
        numbers |= set(range(first - 1, last))
    return tuple(sorted(numbers))


def _connect_form(form: FunctionGui[..., Any]) -> None:
    """Adapt the choices that depend on the chosen layers."""
    form.layers.native.setFixedHeight(ROWS_SHOWN * form.layers.native.fontMetrics().lineSpacing() + 24)
    form.layers.changed.connect(lambda: offer_for(form))
    offer_for(form)


def offer_for(form: FunctionGui[..., Any]) -> None:
    """Offer the axes and channels of the chosen layers; hide what they do not have."""
    layers = form.layers.value
    is_stack = bool(layers) and all(isinstance(layer, Image) and layer.ndim > 2 for layer in layers)
    names = list_axes(layers[0]) if is_stack else []
    shape = (layers[0].level_shapes[0] if layers[0].multiscale else layers[0].data.shape) if is_stack else ()
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
    scope={"label": "Time, channels", "choices": [("all of them", ALL), ("where the sliders stand", SHOWN)]},
    decide_by={"label": "Decide by"},
    even_exposure={"label": "Even exposure"},
    align={"label": "Align"},
    reference={"label": "Reference", "min": 0, "max": 1_000_000},
    leave_out={"label": "Leave out"},
    transforms={"label": "Transforms", "mode": "w", "filter": "Transforms (*.json)", "nullable": True},
    with_maps={"label": "Focus maps"},
    with_height={"label": "Height map"},
    height_smoothing={"label": "Smoothing", "min": 0, "max": 32},
    slab={"label": "Slabs of", "min": 0, "max": 100_000},
    scheduler={"label": "Scheduler"},
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
    destination: Annotated[Path | None, {"widget_type": Destination, "label": "Result"}] = None,
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
        The OME-Zarr folder to write to, or in memory.
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
    target = settle_target(destination, series)
    if slab and target is None:
        raise InvalidConfigError(SLABS_NEED_A_PLACE)
    request = FusionRequest(
        series=series,
        config=config,
        target=target,
        with_maps=with_maps,
        with_height=with_height,
        height_smoothing_px=height_smoothing,
        slab_size=slab,
        transforms_target=None if transforms is None or transforms.is_file() or align == "none" else transforms,
        scheduler=scheduler.strip(),
        memory_bytes=read_preferences().memory_bytes,
    )
    keep(config)
    taken = [layer.name for layer in napari_viewer.layers]
    label = choose_label([channel.title for channel in series.channels], describe_changes(config), taken=taken)
    worker = make_worker(run_fusion, request, label, is_waited_for=target is not None)
    DockEntry(worker, title=f"Fusing {series.channels[0].title}")
    worker.start()
    return worker


def run_fusion(request: FusionRequest, label: str, *, job: Any) -> list[LayerDataTuple]:  # noqa: ANN401 - a worker
    """Fuse, and return the layers of the result; runs in a worker thread."""
    started_at = time.monotonic()
    outcome = fuse_series(request, job=job)
    series, layers = request.series, []
    for found in outcome.channels:
        stack = series.channels[found.number].stacks[0]
        z_step, unit = stack.z_step
        record = record_provenance(stack, request.config, focus_range=found.focus_range, path=found.path)
        if request.with_height:
            counted = "" if stack.axis is None else "pixel"  # heights of separate images count images
            record["height"] = {"z_step": z_step, "unit": unit or counted, "smoothing_px": request.height_smoothing_px}
        layers += describe_channel(series, found.number, found.pictures, label=label, record=record, z_step=z_step)
    n_fusions = "" if series.n_fusions == 1 else f", {series.n_fusions} times"
    words = [f"fused {series.first.n_images} images{n_fusions} in {time.monotonic() - started_at:.1f} s", outcome.hint]
    words.append(f"dashboard: {outcome.dashboard}" if outcome.dashboard else "")
    job.summary = "; ".join(word for word in words if word)
    return layers
