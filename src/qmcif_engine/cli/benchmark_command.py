"""``qmcif benchmark``: a data set fused and scored, and the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from qmcif_engine.cli.options import Request
from qmcif_engine.cli.stacks import gather_settings
from qmcif_engine.cli.terminal import progress_bar
from qmcif_engine.comparison.ablation import draw_tables, plan_ablation, write_ablation
from qmcif_engine.comparison.datasets import Dataset, find_dataset
from qmcif_engine.comparison.html import write_html
from qmcif_engine.comparison.methods import Method, check_names, find_baseline, match_images, parse_fused_by
from qmcif_engine.comparison.record import fingerprint_inputs, open_record, write_texts
from qmcif_engine.comparison.report import Comparison, head_inner, name_symbol, write_markdown, write_scores
from qmcif_engine.comparison.runner import score_dataset
from qmcif_engine.comparison.tables import ComparisonTable, Mark, choose_published
from qmcif_engine.config.fusion_config import FusionConfig, preset
from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.dask_threads import count_cores
from qmcif_engine.io.output.placement import ready_folder


def run(options: Request) -> None:
    """Write the report, or the ablation tables, into the report folder and print the main table."""
    names = options.presets or ["paper" if options.ablation else "default"]
    if options.ablation and (len(names) > 1 or options.fused_by or options.methods or options.border):
        msg = (
            "--ablation was given with several presets, --method, --fused-by or --border; it varies one preset and scores whole images: "
            "name at most one, and nothing else"
        )
        raise InvalidConfigError(msg)
    settings = {name: gather_settings(preset_name=name, config_file=None, assignments=options.assignments) for name in names}
    dataset = find_dataset(options.dataset)
    if options.ablation:
        methods, filled_by = plan_ablation(settings[names[0]])
        comparison = _score(options, dataset, methods, settings)
        texts = {"ablation.md": write_ablation(comparison, filled_by), "ablation.csv": write_scores(comparison)}
        summary = [draw_tables(comparison, filled_by), ""]
    else:
        comparison = _score(options, dataset, _list_methods(options, dataset, settings), settings)
        with progress_bar("drawing", is_quiet=False) as move:
            page = write_html(comparison, progress=move)
        texts = {"report.md": write_markdown(comparison), "report.html": page, "scores.csv": write_scores(comparison)}
        summary = draw_summary(comparison.table)
        if comparison.border_px is not None:
            summary += [f"\n{head_inner(comparison.border_px)}:", *draw_summary(comparison.inner_table)]
    write_texts(options.output, texts)
    print(*summary, *(options.output / name for name in texts), sep="\n")


def _list_methods(options: Request, dataset: Dataset, settings: Mapping[str, FusionConfig]) -> tuple[Method, ...]:
    set_names = [image_set.name for image_set in dataset.sets]
    methods = [Method(name=name, settings=settings[name]) for name in options.presets or settings]
    methods += [Method(name=baseline.name, baseline=baseline.name) for baseline in map(find_baseline, options.methods)]
    methods += [Method(name=name, images=match_images(folder, set_names)) for name, folder in map(parse_fused_by, options.fused_by)]
    check_names(methods)
    return tuple(methods)


def _score(options: Request, dataset: Dataset, methods: tuple[Method, ...], settings: Mapping[str, FusionConfig]) -> Comparison:
    published = choose_published(options.published, dataset.name)
    record = open_record(options.output, dataset, methods=methods, overwrite=options.overwrite)
    with progress_bar("checking", is_quiet=False) as move:
        # scores of inputs that did not change are taken from the record
        fingerprints = fingerprint_inputs(dataset, methods, progress=move, border_px=options.border)
    try:
        # after all checks: a refused request leaves no folder
        with ready_folder(options.output), progress_bar("fusing and scoring", is_quiet=False) as move:
            scores = score_dataset(
                dataset,
                methods,
                record=record,
                fingerprints=fingerprints,
                n_processes=options.jobs or count_cores(),
                progress=move,
                border_px=options.border,
            )
    except KeyboardInterrupt:
        msg = f"what was finished is kept in {str(options.output)!r}: the same command goes on from there"
        raise KeyboardInterrupt(msg) from None
    return Comparison(
        command=shlex.join(["qmcif", *options.words]),
        dataset=dataset,
        methods=methods,
        changes={name: describe_changes(own, preset(name)) for name, own in settings.items()},
        scores=scores,
        published=published,
        folder=options.output,
        border_px=options.border,
    )


def describe_changes(settings: FusionConfig, reference: FusionConfig) -> str:
    """Return the settings that differ from the preset, as ``--set`` would take them."""
    before = reference.to_dict()
    changed = [
        f"{name}={value}"
        for section, values in settings.to_dict().items()
        for name, value in values.items()
        if value != before[section][name]
    ]
    return ", ".join(changed)


def draw_summary(table: ComparisonTable) -> list[str]:
    """Return the table of means for a terminal, the best of each column with a star."""
    lines = [["method", "figures", *map(name_symbol, table.symbols)]]
    for row in table.rows:
        figures = [row.show(symbol) + ("*" if row.marks[symbol] is Mark.BEST else " ") for symbol in table.symbols]
        lines.append([row.label, row.origin, *figures])
    first, second, *widths = (max(map(len, column)) for column in zip(*lines, strict=True))
    return [
        "  ".join(
            [label.ljust(first), origin.ljust(second), *(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))]
        ).rstrip()
        for label, origin, *cells in lines
    ]
