"""Alignment and exposure as the options of a command ask for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import progress_bar
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.output.placement import check_place

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qmcif_engine.io.input.file_stack import FileStack
    from qmcif_engine.io.remote_path import Location
    from qmcif_engine.stack.alignment.transforms import Transforms
    from qmcif_engine.stack.stack import Stack


def check_alignment(stack: FileStack, options: Request, outputs: Iterable[Location]) -> None:
    """Refuse a reference that there is none of and transforms that can be neither read nor written, before anything is computed."""
    _reference(stack, options)
    if options.transforms is None:
        return
    target = Path(options.transforms)
    # realpath: under whatever name
    if os.path.realpath(target) in {os.path.realpath(path) for path in outputs if isinstance(path, Path)}:
        msg = f"{options.transforms!r} is to hold both a result and the transforms; a name of its own is needed for each: choose another"
        raise InvalidConfigError(msg)
    known = _known_transforms(options, stack)
    if known is None:
        check_place(target, overwrite=False)
    # a file that says otherwise would be used without a word, or the option be ignored
    elif options.align not in (None, known.model) or options.reference not in (None, known.reference + 1):
        msg = (
            f"{options.transforms!r} holds transforms of the model {known.model} and the reference {known.reference + 1}; --align and "
            "--reference must say the same: leave them out to use the file, or name a new file to estimate again"
        )
        raise InvalidConfigError(msg)


def prepare_inputs(stack: FileStack, options: Request, *, keeps_channels: bool = False) -> Stack:
    """Return the stack as it shall be fused or written, and say on standard error what the user should know."""
    # loads NumPy, which `qmcif --help` does without
    from qmcif_engine.stack.preparation import prepare_stack

    reference = _reference(stack, options)
    known = _known_transforms(options, stack)
    stack.expect_all()
    # hints are for people: nobody reads them where output is quiet or for a program
    known_stack = stack if options.quiet or options.json else _give_hints(stack, options, is_moved=known is not None)
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
            print(f"qmcif: {warning.message}", file=sys.stderr)
        if options.transforms is not None:
            from qmcif_engine.io.output.transform_files import save_transforms

            save_transforms(options.transforms, found)
            if not options.quiet:
                print(f"qmcif: the transforms are kept in {options.transforms!r}", file=sys.stderr)
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
    if options.transforms is None or options.time is not None or stack.n_times == 1 or Path(options.transforms).exists():
        return
    from qmcif_engine.io.output.transform_files import save_transforms_of_times
    from qmcif_engine.stack.preparation import prepare_stack

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
            print(f"qmcif: time point {number}: {warning.message}", file=sys.stderr)
    save_transforms_of_times(options.transforms, found)
    if not options.quiet:
        print(f"qmcif: the transforms of {len(found)} time points are kept in {options.transforms!r}", file=sys.stderr)


def _known_transforms(options: Request, stack: FileStack) -> Transforms | None:
    """Return the transforms in the file that was named, if it exists: those of the time point, or those for all."""
    if options.transforms is None:
        return None
    from qmcif_engine.io.output.transform_files import load_transforms_of_times

    if Path(options.transforms).exists():
        known = load_transforms_of_times(options.transforms)
        if len(known) not in (1, stack.n_times):
            msg = (
                f"{options.transforms!r} holds transforms of {len(known)} time points and the stack has {stack.n_times}; those of one, "
                "for all, or of as many are needed: name another file"
            )
            raise InvalidConfigError(msg)
        # one for all time points, or one for each
        return known[stack.time if len(known) > 1 else 0]
    if options.align in (None, "none"):
        msg = f"{options.transforms!r} does not exist; a file with transforms is needed: make one by adding --align similarity"
        raise InvalidConfigError(msg)
    return None


def _give_hints(stack: FileStack, options: Request, *, is_moved: bool) -> Stack:
    """Report what could be done about images that differ; return the stack with what was read of it on the way."""
    from qmcif_engine.stack.exposure import previews_for_exposure
    from qmcif_engine.stack.previews import read_previews

    judges_alignment = options.align is None and not is_moved
    # a pair would be read twice for it, which costs 2 to 3 % of its run: `qmcif info` and the plugin tell
    judges_exposure = not options.even_exposure and stack.n_images > 2
    previews = previews_for_exposure(stack) if judges_exposure else []
    if judges_alignment:
        from qmcif_engine.stack.alignment.suggestion import previews_for_alignment

        previews += previews_for_alignment(stack)
    if not previews:
        return stack
    looked = read_previews(stack, previews)
    if judges_alignment:
        _hint_at_alignment(looked)
    if judges_exposure:
        _hint_at_exposure(looked)
    # samples are kept: range and noise are measured on the same windows again
    return looked.replaced()


def _hint_at_alignment(stack: Stack) -> None:
    """Report that a stack is visibly misaligned; nothing is moved unasked."""
    from qmcif_engine.stack.alignment.suggestion import suggest_alignment

    suggestion = suggest_alignment(stack)
    if suggestion is not None:
        print(f"qmcif: {suggestion.message}", file=sys.stderr)


def _hint_at_exposure(stack: Stack) -> None:
    """Report that the images of a stack visibly differ in brightness; nothing is made brighter or darker unasked."""
    from qmcif_engine.stack.exposure import suggest_even_exposure

    suggestion = suggest_even_exposure(stack)
    if suggestion is not None:
        print(f"qmcif: {suggestion.message}", file=sys.stderr)
