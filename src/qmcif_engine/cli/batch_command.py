"""``qmcif batch``: every stack below a folder fused, and a table of what became of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from qmcif_engine.cli.fuse_command import fuse_inputs
from qmcif_engine.cli.options import Request
from qmcif_engine.cli.stacks import gather_outputs, gather_settings
from qmcif_engine.cli.terminal import printable, report_compilation
from qmcif_engine.errors import ExecutionError, InvalidConfigError, OutputError
from qmcif_engine.io.output.formats import choose_format
from qmcif_engine.io.output.placement import ready_folder
from qmcif_engine.pipeline.batch import BatchRow, BatchStatus, Group, find_groups, run_batch, run_list
from qmcif_engine.run.job_folder import JOB_SUFFIX


def run(options: Request) -> None:
    """Fuse every stack as the options say.

    Raises
    ------
    ExecutionError
        At the end, when a stack failed.
    """
    settings = gather_settings(preset_name=options.preset, config_file=options.config, assignments=options.assignments)
    # refuses a suffix that names no format before any stack is fused
    choose_format(options.output / f"name{options.suffix}")
    # one file would be written from the first stack, and the others moved by it
    if options.transforms is not None and not options.transforms.exists():
        msg = (
            f"{str(options.transforms)!r} does not exist; transforms for all stacks are needed: leave it out to align each stack by itself"
        )
        raise InvalidConfigError(msg)
    # results below ROOT must not become stacks of the next run
    groups = find_groups(options.root, options.pattern, leave_out=options.output)
    if options.dry_run:
        _print_plan(groups, options)
        return
    _check_distinct(groups, options)
    refused: list[Group] = []

    def fuse_group(group: Group) -> list[Path]:
        # a batch that is resumed may replace what it was allowed to
        asked = replace(_options_of(group, options), overwrite=listed.may_replace)
        try:
            results = fuse_inputs(asked, settings, skips_finished=options.resume, is_cancelled=listed.watch())
        except OutputError as error:
            if error.errno is None:  # nothing that the system said, such as a full disk
                refused.append(group)
            raise
        listed.has_results = True
        return [path for result in results for path in result.report.outputs if isinstance(path, Path)]

    def report(row: BatchRow) -> None:
        if options.is_verbose:
            print(f"{printable(row.name)}: {row.status} in {row.seconds:.1f} s", flush=True)

    try:
        listing = run_list(options.output / f"batch{JOB_SUFFIX}", settings, resume=options.resume, overwrite=options.overwrite)
        with ready_folder(options.output), report_compilation(is_quiet=not options.is_verbose), listing as listed:
            rows = run_batch(groups, fuse_group, on_row=report)
    except KeyboardInterrupt:
        if options.output.exists():
            msg = "what is finished is kept: continue with --resume"
            raise KeyboardInterrupt(msg) from None
        raise
    _print_rows(rows, options)
    n_failed = sum(row.status is BatchStatus.FAILED for row in rows)
    if options.resume and len(refused) == len(rows):
        msg = (
            f"the outputs of all {len(rows)} stacks were refused; missing ones, or those of the same images and settings, are needed to "
            "resume: the reasons are in the table; choose another folder, or replace them with --overwrite"
        )
        raise OutputError(msg)
    if n_failed:
        msg = (
            f"{n_failed} of {len(rows)} stacks failed; the reasons are in the table: correct them, then fuse what is missing with --resume"
        )
        raise ExecutionError(msg)


def _check_distinct(groups: Sequence[Group], options: Request) -> None:
    """Refuse stacks of which one would replace results of another, on any file system."""
    owners: dict[str, str] = {}
    for group in groups:
        for path in gather_outputs(_options_of(group, options)).files:
            other = owners.setdefault(str(path).casefold(), group.name)
            if other != group.name:
                msg = f"the stacks {other!r} and {group.name!r} would both write {path.name!r}; different names are needed: rename one"
                raise InvalidConfigError(msg)


def _options_of(group: Group, options: Request) -> Request:
    folder = options.output
    return replace(
        options,
        images=group.inputs,
        output=folder / f"{group.name}{options.suffix}",
        maps=folder / f"{group.name}_maps" if options.maps else None,
        depth=folder / f"{group.name}_height.ome.tif" if options.depth else None,
        slab_folder=None if options.slab is None else folder / f"{group.name}_slabs",
        quiet=True,  # one line a stack is enough; its own report would drown the table
    )


def _print_plan(groups: Sequence[Group], options: Request) -> None:
    plan = [
        {"name": group.name, "inputs": [str(path) for path in group.inputs], "output": str(_options_of(group, options).output)}
        for group in groups
    ]
    if options.json:
        print(json.dumps({"stacks": plan}))
        return
    for group, row in zip(groups, plan, strict=True):
        inputs = printable(str(group.inputs[0])) if len(group.inputs) == 1 else f"{len(group.inputs)} files"
        print(f"{printable(group.name)}: {inputs} to {printable(str(row['output']))}")


def _print_rows(rows: Sequence[BatchRow], options: Request) -> None:
    if options.json:
        print(json.dumps({"stacks": [asdict(row) for row in rows]}, default=str))
    elif not options.quiet:
        width = max(len("stack"), *(len(printable(row.name)) for row in rows))
        print(f"\n{'stack':{width}}  result   output or reason")
        for row in rows:
            print(f"{printable(row.name):{width}}  {row.status:7}  {row.message or ', '.join(path.name for path in row.outputs)}".rstrip())
