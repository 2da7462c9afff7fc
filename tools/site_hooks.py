"""Hooks of the documentation site: pages that are made from the source, equations as MathML, and the addresses of the project.

`mkdocs.yml` names this file. Equations become MathML while the site is built, which browsers show without a script from elsewhere.
"""

from __future__ import annotations

import html
import re
import tomllib
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from dataclasses import Field

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', flags=re.DOTALL)
TOP_LEVEL_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "ROADMAP.md": "roadmap.md",
    "SECURITY.md": "security.md",
}
SECTION_TITLES = {
    "decision": "Decision: which rule, and the settings of the rule energy",
    "method": "The published method: settings of the rule paper",
    "tiling": "Tiles",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the addresses from pyproject.toml, where they are known."""
    addresses = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["qmcif"]
    config.site_url = addresses["documentation"]
    config.repo_url = addresses["repository"] or None
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from other files of the project."""
    files.append(File.generated(config, "settings.md", content=render_settings()))
    files.append(File.generated(config, "how-to/examples.md", content=render_examples()))
    for source, page in TOP_LEVEL_PAGES.items():
        files.append(File.generated(config, page, content=adopt(ROOT / source)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Turn links to files outside the documentation into the names of these files: the site does not hold them."""
    return re.sub(r"\[([^\]]+)\]\((?:\.\./)+(?!docs/)(?:examples|benchmarks|tools|src|tests)[^)]*\)", r"\1", markdown)


def on_page_content(content: str, **_: object) -> str:
    """Replace equations by MathML."""
    return EQUATION.sub(lambda found: to_mathml(html.unescape(found[3]), display="inline" if found[2] == "(" else "block"), content)


def to_mathml(latex: str, *, display: str) -> str:
    """Return one equation as MathML."""
    return convert(latex.strip(), display=display)


def adopt(source: Path) -> str:
    """Return a file of the top level as a page: its links into docs lead on, those to other files become their names."""
    text = source.read_text(encoding="utf-8").replace("](docs/", "](")
    for name, page in TOP_LEVEL_PAGES.items():
        text = text.replace(f"]({name}", f"]({page}")
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#|[a-z_/-]+\.md)[^)]*\)", r"\1", text)


def render_examples() -> str:
    """Return the page of examples: every script with the first line of its docstring as the title."""
    parts = ["# Examples\n\nShort scripts to start from; they lie in `examples/` of the source, and a test runs each of them.\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        title = re.match(r'"""(.+?)[.:]', text)
        parts.append(f"## {title[1] if title else path.stem}\n\n`{path.name}`\n\n```python\n{text}```\n")
    return "\n".join(parts)


def render_settings() -> str:
    """Return the page of settings: every field of the configuration with its meaning, bounds and the values of the presets."""
    from qmcif_engine import PRESETS, FusionConfig

    values = {name: preset.to_dict() for name, preset in PRESETS.items()}
    default = PRESETS["default"]
    lines = [SETTINGS_INTRODUCTION]
    last = ""
    for full, item in FusionConfig.setting_fields().items():
        section, name = full.split(".")
        if section != last:
            heads = " | ".join(f"`{preset}`" for preset in values)
            lines.append(f"\n## {SECTION_TITLES.get(section, section.capitalize())}\n\n`[{section}]` in a settings file.\n")
            lines.append(f"| setting | meaning | allowed values | {heads} |\n|---|---|---|{'---|' * len(values)}")
            last = section
        shown = {preset: show(given[section][name]) for preset, given in values.items()}
        # a preset that keeps the default shows none, so that what it changes is seen
        cells = " | ".join(text if preset == "default" or text != shown["default"] else "" for preset, text in shown.items())
        kind = type(getattr(getattr(default, section), name))
        anchor = f'<a id="{name}"></a>`{name}`'
        lines.append(f"| {anchor} | {item.metadata['help']} | {describe_bounds(item, kind)} | {cells} |")
    return "\n".join(lines) + "\n"


SETTINGS_INTRODUCTION = """# Settings

This page is made from `FusionConfig`, the one place that holds defaults, bounds and help texts; so are the options of the command line
and the form in napari. The columns on the right are the presets; `fast` and `paper` show what they
change.

=== "napari"

    Under **Expert** in the tab **Fuse**; the six choices above it set the most important ones for you.

=== "Command line"

    ```sh
    qmcif fuse shots -o fused.png --preset fast --set order=none --set feather_px=0
    qmcif fuse shots -o fused.png --config my-settings.toml
    ```

=== "Python"

    ```python
    from qmcif_engine import PRESETS

    config = PRESETS["fast"].replaced({"order": "none", "feather_px": 0})
    ```

Most people need none of them. [Troubleshooting](troubleshooting.md) says which one helps with what.
"""


def describe_bounds(item: Field[Any], kind: type) -> str:
    """Return the values that a setting may have."""
    low, high, choices, unit = (item.metadata[key] for key in ("low", "high", "choices", "unit"))
    if issubclass(kind, StrEnum):
        return ", ".join(f"`{member.value}`" for member in kind)
    if kind is bool:
        return "`true`, `false`"
    values = ", ".join(map(str, choices)) if choices else f"{low:.10g} to {high:.10g}"
    return f"{values} {unit}".strip()


def show(value: object) -> str:
    """Return one value as a settings file has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
