"""The site is complete and true: every public name is on it, its code runs, its pages are listed."""

from __future__ import annotations

import doctest
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import qmcif_engine
from qmcif_engine import make_focus_stack, write_image, write_stack
from qmcif_engine.cli.parser import build_parser
from qmcif_engine.cli.stacks import gather_settings
from qmcif_engine.io.input.open import open_stack

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOW_TO = sorted((DOCS / "how-to").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *HOW_TO]
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
GENERATED = {"settings.md", "changelog.md", "code-of-conduct.md", "contributing.md", "roadmap.md", "security.md", "how-to/examples.md"}
NEEDS_ELSEWHERE = ("scheduler-host", "SLURMCluster", "KubeCluster")


def python_blocks(path: Path) -> list[str]:
    """Return the Python blocks of a page; those in tabs are indented."""
    found = re.findall(r"^( *)```python\n(.*?)^\1```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in found]


CODE = [
    pytest.param(code, id=f"{path.stem}-{number}")
    for path in HOW_TO
    for number, code in enumerate(python_blocks(path), start=1)
    if not any(word in code for word in NEEDS_ELSEWHERE)
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the pages speak of, small."""
    folder = tmp_path_factory.mktemp("written")
    images = make_focus_stack(n_images=3, shape=(200, 240)).images
    for name in ("shots", "stacks/ant", "stacks/bee"):
        (folder / name).mkdir(parents=True)
        for number, image in enumerate(images, start=1):
            write_image(folder / name / f"{number}.png", image)
    gray = open_stack(images[..., 0], axes="ZYX")
    write_stack(gray, folder / "specimen.ome.tif")
    write_stack(gray, folder / "specimen.ome.zarr")
    return folder


@pytest.fixture
def inputs(written: Path, tmp_path: Path) -> Path:
    """Copies of them: what a page writes is not seen by the next."""
    return shutil.copytree(written, tmp_path / "work")


def test_every_public_name_stands_on_one_page_of_the_reference() -> None:
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    listed = re.findall(r"^::: (\S+)$", pages, flags=re.MULTILINE)

    types = {name for name in dir(qmcif_engine) if getattr(getattr(qmcif_engine, name), "__module__", "").startswith("qmcif_engine.")}
    public = [f"qmcif_engine.{name}" for name in {*qmcif_engine.__all__, *types}]
    assert sorted(listed) == sorted(public)


@pytest.mark.parametrize("path", sorted((DOCS / "reference").glob("*.md")), ids=lambda path: path.stem)
def test_every_example_of_the_reference_runs_and_speaks_of_its_name(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One namespace for a page, as a reader would type it from top to bottom, in an empty folder."""
    text = path.read_text(encoding="utf-8")
    sections = re.split(r"^::: [\w.]+\.(\w+)$", text, flags=re.MULTILINE)
    names = dict(zip(sections[1::2], sections[2::2], strict=True))
    parser, runner, report = doctest.DocTestParser(), doctest.DocTestRunner(verbose=False), []
    monkeypatch.chdir(tmp_path)

    code = "".join(block for block in re.findall(r"```pycon\n(.*?)```", text, flags=re.DOTALL))
    runner.run(parser.get_doctest(code, {}, path.stem, str(path), 0), out=report.append)

    assert [name for name, section in names.items() if ">>>" not in section or name not in section] == []
    assert runner.failures == 0, "".join(report)


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page() -> None:
    text = re.sub(r"!ENV \[.*?\]", "true", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    def pages(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        return [page for part in (entry.values() if isinstance(entry, dict) else entry) for page in pages(part)]

    named = pages(yaml.safe_load(text)["nav"])
    present = {path.relative_to(DOCS).as_posix() for pattern in ("*.md", "*.ipynb") for path in DOCS.rglob(pattern)}

    assert len(named) == len(set(named))
    assert set(named) == present | GENERATED


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_program_takes_every_command_and_setting_on_a_page(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)
    commands = [line.strip() for block in blocks for line in block.splitlines() if line.strip().startswith("qmcif ")]

    for command in commands:
        build_parser().parse_args(shlex.split(command, comments=True)[1:])  # SystemExit for an option that is unknown
    for line in text.splitlines():
        preset_name = re.findall(r"--preset (\w+)|$", line)[0] or "default"
        gather_settings(preset_name=preset_name, config_file=None, assignments=re.findall(r"--set ([a-z_]+=[\w.]+)", line))


@pytest.mark.slow
@pytest.mark.parametrize("code", CODE)
def test_the_python_code_of_a_how_to_page_runs(code: str, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)
    script = inputs / "script.py"
    script.write_text(code, encoding="utf-8")

    runpy.run_path(str(script), run_name="__main__")


@pytest.mark.nightly
@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    pytest.importorskip("latex2mathml", reason="the extra docs is not installed")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "QMCIF_RUN_NOTEBOOKS": "false"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]

    finished = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert finished.returncode == 0, finished.stderr
    settings = (tmp_path / "site" / "settings.html").read_text(encoding="utf-8")
    assert all(f'id="{name.partition(".")[2]}"' in settings for name in qmcif_engine.FusionConfig.setting_fields())
    assert "<math" in (tmp_path / "site" / "method.html").read_text(encoding="utf-8")


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra docs is not installed")
    nbformat = pytest.importorskip("nbformat", reason="the extra docs is not installed")
    pytest.importorskip("matplotlib", reason="the extra docs is not installed")
    notebook = nbformat.read(path, as_version=4)

    nbclient.NotebookClient(notebook, timeout=600, startup_timeout=600, kernel_name="python3").execute()

    assert not any(cell.get("outputs") for cell in nbformat.read(path, as_version=4).cells), "commit notebooks without their outputs"
    assert any(cell.get("outputs") for cell in notebook.cells)
