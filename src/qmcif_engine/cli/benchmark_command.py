"""``qmcif benchmark``: a data set fused and scored, and the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from qmcif_engine.cli.chosen_settings import gather_settings
from qmcif_engine.cli.options import Request
from qmcif_engine.cli.terminal import progress_bar
from qmcif_engine.comparison.ablation import draw_tables, plan_ablation, write_ablation
from qmcif_engine.comparison.baselines import find_baseline
from qmcif_engine.comparison.datasets import Dataset, find_dataset
from qmcif_engine.comparison.html import write_html
from qmcif_engine.comparison.methods import Method, check_names, match_images, parse_fused_by
from qmcif_engine.comparison.published import choose_published
from qmcif_engine.comparison.record import Score, fingerprint_inputs, open_record, writing
from qmcif_engine.comparison.report import Comparison, head_inner, name_symbol, write_markdown, write_scores
from qmcif_engine.comparison.runner import score_dataset
from qmcif_engine.comparison.tables import ComparisonTable, Mark, format_figure
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.config.presets import preset
from qmcif_engine.errors import InvalidConfigError, OutputError
from qmcif_engine.io.dask_threads import count_cores
from qmcif_engine.io.output.placement import check_folder, place_files


def run(options: Request) -> None:
    """Write the report, or the ablation tables, into the report folder and print the main table."""
    if options.jobs is not None and options.jobs < 1:
        msg = f"--jobs {options.jobs} was given; 1 or more is needed: leave it out to use all cores"
        raise InvalidConfigError(msg)
    if options.border is not None and options.border < 1:
        msg = f"--border {options.border} was given; 1 px or more is needed: leave it out to score whole images only"
        raise InvalidConfigError(msg)
    if options.ablation:
        _run_ablation(options)
    else:
        _run_comparison(options)


def _run_comparison(options: Request) -> None:
    names = options.presets or ["default"]
    settings = _gather_all(names, options)
    dataset = find_dataset(options.dataset)
    others = _find_others(options.fused_by, dataset)
    baselines = [Method(name=baseline.name, baseline=baseline.name) for baseline in map(find_baseline, options.methods)]
    methods = (*(Method(name=name, settings=settings[name]) for name in names), *baselines, *others)
    check_names(methods)
    comparison = _score(options, dataset, methods=methods, settings=settings)
    with progress_bar("drawing", is_quiet=False) as move:
        page = write_html(comparison, progress=move)
    outputs = {
        "report.md": write_markdown(comparison),
        "report.html": page,
        "scores.csv": write_scores(dataset.name, comparison.scores),
    }
    _place(options.output, outputs)
    for line in draw_summary(comparison.table):
        print(line)
    if comparison.border_px is not None:
        print(f"\n{head_inner(comparison.border_px)}:", *draw_summary(comparison.inner_table), sep="\n")
    for name in outputs:
        print(options.output / name)


def _run_ablation(options: Request) -> None:
    names = options.presets or ["paper"]
    if len(names) > 1 or options.fused_by or options.methods or options.border:
        msg = (
            "--ablation was given with several presets, --method, --fused-by or --border; it varies one preset and scores whole images: "
            "name at most one, and nothing else"
        )
        raise InvalidConfigError(msg)
    settings = _gather_all(names, options)
    methods, filled_by = plan_ablation(settings[names[0]])
    dataset = find_dataset(options.dataset)
    comparison = _score(options, dataset, methods=methods, settings=settings)
    outputs = {"ablation.md": write_ablation(comparison, filled_by), "ablation.csv": write_scores(dataset.name, comparison.scores)}
    _place(options.output, outputs)
    print(draw_tables(comparison, filled_by))
    print()
    for name in outputs:
        print(options.output / name)


def _gather_all(names: Sequence[str], options: Request) -> dict[str, FusionConfig]:
    return {name: gather_settings(preset_name=name, config_file=None, assignments=options.assignments) for name in names}


def _find_others(texts: Sequence[str], dataset: Dataset) -> list[Method]:
    requests = [parse_fused_by(text) for text in texts]
    set_names = [image_set.name for image_set in dataset.sets]
    return [Method(name=name, images=match_images(folder, set_names)) for name, folder in requests]


def _score(options: Request, dataset: Dataset, *, methods: tuple[Method, ...], settings: Mapping[str, FusionConfig]) -> Comparison:
    published = choose_published(options.published, dataset.name)
    record = open_record(options.output, dataset, methods=methods, overwrite=options.overwrite)
    with progress_bar("checking", is_quiet=False) as move:
        # scores of inputs that did not change are taken from the record
        fingerprints = fingerprint_inputs(dataset, methods, progress=move, border_px=options.border)
    # after all checks: a refused request leaves no folder
    _make_folder(options.output)
    try:
        with progress_bar("fusing and scoring", is_quiet=False) as move:
            scores: tuple[Score, ...] = score_dataset(
                dataset,
                methods,
                folder=options.output,
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
        command=rebuild_command(options),
        dataset=dataset,
        methods=methods,
        changes={name: describe_changes(own, preset(name)) for name, own in settings.items()},
        scores=scores,
        published=published,
        folder=options.output,
        border_px=options.border,
    )


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the folder {str(folder)!r} cannot be made ({error.strerror}); a writable place is needed: choose another one"
        raise OutputError(msg) from error
    check_folder(folder)


def _place(folder: Path, texts: Mapping[str, str]) -> None:
    place_files({folder / name: writing(text.encode("utf-8")) for name, text in texts.items()}, overwrite=True)


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


def rebuild_command(options: Request) -> str:
    """Return the command line that was given, quoted for a shell."""
    words = ["qmcif", "benchmark", str(options.dataset), "-o", str(options.output)]
    repeated = {"--preset": options.presets, "--set": options.assignments, "--method": options.methods, "--fused-by": options.fused_by}
    words += [word for flag, values in repeated.items() for value in values for word in (flag, value)]
    single = {"--published": options.published, "--border": options.border, "--jobs": options.jobs}
    words += [word for flag, value in single.items() if value is not None for word in (flag, str(value))]
    words += [flag for flag, is_given in {"--ablation": options.ablation, "--overwrite": options.overwrite}.items() if is_given]
    return shlex.join(words)


def draw_summary(table: ComparisonTable) -> list[str]:
    """Return the table of means for a terminal, the best of each column with a star."""
    heads = ["method", "figures", *map(name_symbol, table.symbols)]
    lines = [heads]
    for row, marks in zip(table.rows, table.marks, strict=True):
        figures = [
            format_figure(row.means.get(symbol), symbol=symbol) + ("*" if marks[symbol] is Mark.BEST else " ") for symbol in table.symbols
        ]
        lines.append([row.label, row.origin, *figures])
    widths = [max(len(line[number]) for line in lines) for number in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(width) if number < 2 else cell.rjust(width) for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
