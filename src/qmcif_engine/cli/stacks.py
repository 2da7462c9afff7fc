"""What the options name: settings, the stack and its guide, how the stack is aligned, and where the results go."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import notify, progress_bar, show_bytes
from qmcif_engine.config.fusion_config import FusionConfig, parse_assignment, preset
from qmcif_engine.config.settings import parse_toml
from qmcif_engine.depth import HeightRequest
from qmcif_engine.errors import ImageFileError, InvalidConfigError, InvalidImageError
from qmcif_engine.io.input.file_order import list_files
from qmcif_engine.io.input.file_stack import FileStack
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.io.limits import LARGEST_SETTINGS_BYTES, read_bounded
from qmcif_engine.io.output.placement import check_place
from qmcif_engine.io.output.transform_files import load_transforms_of_times, save_transforms, save_transforms_of_times
from qmcif_engine.io.remote_path import Location, RemotePath
from qmcif_engine.pipeline.outputs import Outputs, SlabLayout
from qmcif_engine.stack.alignment.suggestion import previews_for_alignment, suggest_alignment
from qmcif_engine.stack.alignment.transforms import Transforms
from qmcif_engine.stack.deciding import join_guide
from qmcif_engine.stack.exposure import previews_for_exposure, suggest_even_exposure
from qmcif_engine.stack.preparation import prepare_stack
from qmcif_engine.stack.previews import read_previews
from qmcif_engine.stack.stack import Stack


def gather_settings(*, preset_name: str, config_file: Path | None = None, assignments: Sequence[str]) -> FusionConfig:
    """Return the settings of a preset, then those of a file and of single assignments; later ones win."""
    settings = preset(preset_name)
    if config_file is not None:
        settings = _update_by_file(settings, config_file)
    settings = settings.replaced(dict(parse_assignment(text) for text in assignments))
    if idle := settings.list_idle_settings():
        warnings.warn(f"settings {', '.join(idle)} act under rule=paper only, and the rule is energy: add --preset paper", stacklevel=2)
    return settings


def _update_by_file(settings: FusionConfig, path: Path) -> FusionConfig:
    try:
        return settings.updated(parse_toml(read_bounded(path, largest_bytes=LARGEST_SETTINGS_BYTES).decode("utf-8")))
    except InvalidConfigError:
        raise
    # ValueError and RecursionError come of numbers of thousands of digits and of a thousand brackets too
    except (OSError, RecursionError, ValueError) as error:
        msg = f"configuration {str(path)!r} cannot be read ({error}); a small TOML file is needed: check its name, permissions and content"
        raise InvalidConfigError(msg) from error


def open_inputs(options: Request) -> FileStack:
    """Open the stack that the options name."""
    return _open(options.images, options, time=options.time or 0, channels=options.channels)


def open_guide(stack: FileStack, options: Request) -> FileStack | None:
    """Open the guide that the options name, if any, once it is known to fit the stack.

    What the options leave out of the stack, reorder or choose, they do to the guide; a guide of one channel needs no choice.
    """
    if options.guide is None:
        return None
    if options.slab is not None:
        msg = "--guide was given with --slab; slabs are decided on by themselves, without a guide: leave one of the two out"
        raise InvalidConfigError(msg)
    # tried with its first channel, which a guide of one channel is; with several the options choose
    guide = _open(options.guide, options, channels=[1])
    if guide.companions is not None:
        guide = _open(options.guide, options, channels=options.channels)
    if guide.n_times != stack.n_times:
        msg = (
            f"the guide has {guide.n_times} time points and the stack has {stack.n_times}; as many are needed: "
            "make the guide from the whole of this stack"
        )
        raise InvalidImageError(msg)
    join_guide(guide, stack)
    return guide


def _open(inputs: Sequence[Location], options: Request, *, channels: Sequence[int | str] | None, time: int = 0) -> FileStack:
    return open_stack(
        [path if isinstance(path, RemotePath) else str(path) for path in inputs],
        exclude=options.exclude,
        order=options.order,
        image=options.image,
        axes=options.axes,
        time=time,
        channels=channels,
        scratch_folder=options.scratch,
        strict_chunks=options.strict_chunks,
    )


def gather_outputs(options: Request) -> Outputs:
    """Return where the results go that the options ask for.

    Raises
    ------
    InvalidConfigError
        For options that mean nothing without another one.
    """
    _check_together(
        "depth", {"--z-step": options.z_step, "--z-unit": options.z_unit, "--depth-smoothing": options.depth_smoothing}, options
    )
    _check_together("slab", {"--slab-overlap": options.slab_overlap, "--slab-folder": options.slab_folder}, options)
    height = slabs = None
    if options.depth is not None:
        height = HeightRequest(target=options.depth, z_step=options.z_step, unit=options.z_unit, smoothing_px=options.depth_smoothing or 0)
    if options.slab is not None:
        if isinstance(options.output, RemotePath):
            msg = f"--slab was given with {str(options.output)!r}; slabs are written as files here: name a file here, or leave --slab out"
            raise InvalidConfigError(msg)
        overlap = options.slab // 4 if options.slab_overlap is None else options.slab_overlap
        folder = options.output.with_name(f"{options.output.name}.slabs") if options.slab_folder is None else options.slab_folder
        slabs = SlabLayout(size=options.slab, overlap=overlap, folder=folder)
    return Outputs(image=options.output, maps=options.maps, height=height, slabs=slabs)


def _check_together(leader: str, followers: dict[str, object], options: Request) -> None:
    given = [name for name, value in followers.items() if value is not None]
    if given and getattr(options, leader) is None:
        msg = f"{', '.join(given)} was given without --{leader}; it belongs to that option: add --{leader} or leave it out"
        raise InvalidConfigError(msg)


def check_alignment(stack: FileStack, options: Request, outputs: Iterable[Location]) -> None:
    """Refuse a reference that there is none of and transforms that can be neither read nor written, before anything is computed."""
    _reference(stack, options)
    if options.transforms is None:
        return
    # realpath: under whatever name
    if os.path.realpath(options.transforms) in {os.path.realpath(path) for path in outputs if isinstance(path, Path)}:
        msg = (
            f"{str(options.transforms)!r} is to hold both a result and the transforms; a name of its own is needed for each: choose another"
        )
        raise InvalidConfigError(msg)
    known = _known_transforms(options, stack)
    if known is None:
        check_place(options.transforms, overwrite=False)
    # a file that says otherwise would be used without a word, or the option be ignored
    elif options.align not in (None, known.model) or options.reference not in (None, known.reference + 1):
        msg = (
            f"{str(options.transforms)!r} holds transforms of the model {known.model} and the reference {known.reference + 1}; --align and "
            "--reference must say the same: leave them out to use the file, or name a new file to estimate again"
        )
        raise InvalidConfigError(msg)


def prepare_inputs(stack: FileStack, options: Request, *, keeps_channels: bool = False) -> Stack:
    """Return the stack as it shall be fused or written, and report on standard error what the user should know."""
    reference = _reference(stack, options)
    known = _known_transforms(options, stack)
    stack.expect_all()
    # hints are for people: nobody reads them where output is quiet or for a program
    known_stack = _give_hints(stack, options, is_moved=known is not None) if options.is_verbose else stack
    with progress_bar("aligning", is_quiet=options.quiet) as move:
        prepared = prepare_stack(
            known_stack,
            align=options.align or "none",
            reference=reference,
            transforms=known,
            even_exposure=options.even_exposure,
            even_companions=options.even_exposure and keeps_channels,
            on_progress=move,
        )
    found = prepared.transforms
    if found is not None and known is None:
        for warning in found.warnings:
            notify(warning.message)
        if options.transforms is not None:
            save_transforms(options.transforms, found)
            if not options.quiet:
                notify(f"the transforms are kept in {str(options.transforms)!r}")
    return prepared


def _reference(stack: FileStack, options: Request) -> int | None:
    if options.reference is None:
        return None
    if not 1 <= options.reference <= stack.n_images:
        msg = f"image {options.reference} was given as the reference; a number from 1 to {stack.n_images} is needed: choose one of them"
        raise InvalidConfigError(msg)
    return int(options.reference) - 1


def estimate_transforms(stack: FileStack, options: Request) -> None:
    """Write the transforms of all time points, where a file for them is named that does not exist yet.

    They are found before anything is fused: an interrupted run then goes on with the same ones.
    """
    if options.transforms is None or options.time is not None or stack.n_times == 1 or options.transforms.exists():
        return
    found = []
    with progress_bar("aligning", is_quiet=options.quiet) as move:
        for time in range(stack.n_times):
            with stack.at_time(time) as point:
                point.expect_all()
                prepared = prepare_stack(point, align=options.align or "none", reference=_reference(stack, options))
            if prepared.transforms is not None:
                found.append(prepared.transforms)
            move(time + 1, stack.n_times)
    for number, transforms in enumerate(found):
        for warning in transforms.warnings:
            notify(f"time point {number}: {warning.message}")
    save_transforms_of_times(options.transforms, found)
    if not options.quiet:
        notify(f"the transforms of {len(found)} time points are kept in {str(options.transforms)!r}")


def _known_transforms(options: Request, stack: FileStack) -> Transforms | None:
    """Return the transforms in the file that was named, if it exists: those of the time point, or those for all."""
    if options.transforms is None:
        return None
    if options.transforms.exists():
        known = load_transforms_of_times(options.transforms)
        if len(known) not in (1, stack.n_times):
            msg = (
                f"{str(options.transforms)!r} holds transforms of {len(known)} time points and the stack has {stack.n_times}; "
                "those of one, for all, or of as many are needed: name another file"
            )
            raise InvalidConfigError(msg)
        # one for all time points, or one for each
        return known[stack.time if len(known) > 1 else 0]
    if options.align in (None, "none"):
        msg = f"{str(options.transforms)!r} does not exist; a file with transforms is needed: make one by adding --align similarity"
        raise InvalidConfigError(msg)
    return None


def _give_hints(stack: FileStack, options: Request, *, is_moved: bool) -> Stack:
    """Suggest what could be done about images that differ; return the stack with what was read of it on the way."""
    judges_alignment = options.align is None and not is_moved
    # a pair would be read twice for it, which costs 2 to 3 % of its run: `qmcif info` and the plugin suggest it
    judges_exposure = not options.even_exposure and stack.n_images > 2
    previews = [*(previews_for_exposure(stack) if judges_exposure else ()), *(previews_for_alignment(stack) if judges_alignment else ())]
    if not previews:
        return stack
    looked = read_previews(stack, previews)
    for suggestion in (suggest_alignment(looked) if judges_alignment else None, suggest_even_exposure(looked) if judges_exposure else None):
        if suggestion is not None:
            notify(suggestion.message)
    # samples are kept: range and noise are measured on the same windows again
    return looked.replaced()


def report_decoding(options: Request, *stacks: FileStack) -> None:
    """Report that images are decoded into files first, and how large these are."""
    for stack in stacks:
        if stack.scratch_bytes and options.is_verbose:
            print(f"decoding {stack.n_images} images once into {show_bytes(stack.scratch_bytes)} of scratch space")


def report_misplaced(inputs: Iterable[Location], outputs: Iterable[Location]) -> None:
    """Report an image that was given twice, and a result that lies where the same command would take it for an image of the stack."""
    try:
        given = [path for item in inputs for path in list_files(item) if not isinstance(path, RemotePath)]
    except ImageFileError:  # some are gone by now, which is no reason to fail
        return
    counts = Counter(os.path.realpath(path) for path in given)
    for path in [path for path in given if counts[os.path.realpath(path)] > 1][:1]:
        notify(f"{str(path)!r} was given more than once; each image is needed once: leave the others out")
    for path in [path for path in outputs if not isinstance(path, RemotePath) and os.path.realpath(path) in counts][:1]:
        notify(
            f"{str(path)!r} lies among the images, and the next run would take it for one of them: "
            f"move it, or leave it out with --exclude {path.name!r}"
        )
