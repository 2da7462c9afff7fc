"""What stands at the top level is complete, agrees with itself, and reaches the user in the wheel."""

import ast
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

import qmcif_engine

ROOT = Path(__file__).parents[1]

TOP_LEVEL = [
    ".ci/run",
    ".github/workflows/release.yml",
    ".github/workflows/tests.yml",
    "CHANGELOG.md",
    "CITATION.cff",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "ROADMAP.md",
    "docs/method.md",
    "examples",
    "mkdocs.yml",
    "napari.yaml",
    "pyproject.toml",
    "src/napari_qmcif",
    "src/qmcif_engine",
    "tests",
]
SHIPPED = [
    "napari_qmcif/samples/board/LICENSE.txt",
    "napari_qmcif/samples/board/board_7.jpg",
    "napari_qmcif/samples/neuron/LICENSE.txt",
    "napari_qmcif/samples/neuron/neuron.tif",
    "napari_qmcif/napari.yaml",
    "napari_qmcif/py.typed",
    "qmcif_engine/method/dictionary/trained.npz",
    "qmcif_engine/py.typed",
]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def addresses():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["qmcif"]


@pytest.fixture(scope="module")
def citation():
    return yaml.safe_load((ROOT / "CITATION.cff").read_text())


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", folder], cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def distributions(dist):
    """Names of the files in the wheel and in the source distribution."""
    folder = dist
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        wheel_names = set(archive.namelist())
    with tarfile.open(source) as archive:
        source_names = {name.partition("/")[2] for name in archive.getnames()}
    return wheel_names, source_names


@pytest.mark.parametrize("path", TOP_LEVEL)
def test_project_has(path):
    assert (ROOT / path).exists()


def test_build_server_calls_the_whole_check():
    script = ROOT / ".ci" / "run"

    assert script.stat().st_mode & 0o111
    assert script.read_text().rstrip().endswith("exec make test")


def test_version_is_the_same_everywhere(project, citation):
    assert project["version"] == version("napari-qmcif") == qmcif_engine.__version__ == citation["version"]


def test_citation_names_the_software_and_the_paper(project, citation, addresses):
    (paper,) = citation["references"]

    assert citation["cff-version"] == "1.2.0"
    assert citation["title"] == project["name"]
    assert citation["license"] == project["license"] == "BSD-3-Clause"
    assert paper["title"] == "Quaternion Sparse Decomposition for Multi-focus Color Image Fusion"
    assert [author["family-names"] for author in paper["authors"]] == ["Yang", "Zhou"]
    assert paper["url"] == addresses["paper"]


def test_base_install_brings_no_viewer(project):
    for name in ("napari", "pyqt", "pyside", "qtpy", "magicgui"):
        assert not any(requirement.lower().startswith(name) for requirement in project["dependencies"])


def test_wheel_holds_every_file_of_both_packages(distributions):
    wheel_names, _ = distributions
    files = (path.relative_to(ROOT / "src") for path in (ROOT / "src").rglob("*") if path.is_file())
    sources = {path.as_posix() for path in files if "__pycache__" not in path.parts}

    packaged = {name for name in wheel_names if ".dist-info/" not in name}
    assert packaged == sources, "a wheel holds the two packages, all of them and nothing else"
    assert set(SHIPPED) <= wheel_names
    assert {name.partition("/")[0] for name in wheel_names} == {
        "napari_qmcif",
        "qmcif_engine",
        f"napari_qmcif-{qmcif_engine.__version__}.dist-info",
    }


def test_source_distribution_holds_what_is_needed_to_build_and_test(distributions):
    _, source_names = distributions

    assert {f"src/{name}" for name in SHIPPED} <= source_names
    assert {"LICENSE", "Makefile", "README.md", "napari.yaml", "pyproject.toml", "tests/test_project_files.py"} <= source_names


def test_the_package_index_would_take_the_distributions(dist):
    files = sorted(dist.iterdir())
    checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True, check=False)

    assert len(files) == 2
    assert checked.returncode == 0, checked.stdout


def test_every_url_comes_from_the_one_address_and_none_is_invented(dist, addresses):
    (wheel,) = dist.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    urls = [line.partition(": ")[2].partition(", ")[2] for line in lines if line.startswith("Project-URL: ")]

    assert addresses["paper"] in urls
    assert all(url.startswith(tuple(address for address in addresses.values() if address)) for url in urls)


def test_the_top_of_the_engine_can_be_taken_in_at_a_glance():
    entries = [path for path in (ROOT / "src" / "qmcif_engine").iterdir() if path.name != "__pycache__"]

    assert len(entries) <= 22


def test_no_two_modules_or_classes_share_a_name():
    modules = [path for path in (ROOT / "src").rglob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    classes = [node.name for path in modules for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)]

    assert [name for name, count in Counter(path.stem for path in modules).items() if count > 1] == []
    assert [name for name, count in Counter(classes).items() if count > 1] == []


UNDECLARED = {
    ("dask_threads", "sched_getaffinity"),  # not on every system
    ("fuse_widget", "__wrapped__"),  # napari gives plugins a proxy of the viewer, of a private class
    ("layers_in", "dask"),  # tells a dask array without loading dask
    ("tiff_checks", "name"),  # a number where the file holds an unknown one
}


def test_attributes_are_declared_and_not_asked_for_by_name():
    """What is written `getattr(stack, "alpha", None)` no type checker sees; names from a list of fields are another matter."""
    asked = {
        (path.stem, node.args[1].value)
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
        if isinstance(node.args[1], ast.Constant)
    }

    assert asked <= UNDECLARED


def test_every_test_of_the_engine_lies_where_its_subject_lies():
    """In the folder of the same path, so that a module's tests are found without searching."""
    tests, engine = ROOT / "tests" / "engine", ROOT / "src" / "qmcif_engine"
    tested = {path.stem.removeprefix("test_"): path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    homes = {path.stem: path.parent.relative_to(engine) for path in engine.rglob("*.py") if path.name != "__init__.py"}

    assert {name: folder for name, folder in tested.items() if homes.get(name, folder) != folder} == {}
    assert {folder for folder in tested.values() if not (engine / folder).is_dir()} == set()


def test_no_function_has_more_than_50_lines_and_no_module_more_than_400():
    """Docstrings and comments of a function do not count: nobody shall save a reason to stay below."""
    modules = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    functions = {}
    for name, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                first = (node.body[1:] if ast.get_docstring(node) is not None else node.body) or node.body
                body = map(str.strip, text.splitlines()[first[0].lineno - 1 : node.end_lineno])
                functions[f"{name}:{node.name}"] = sum(bool(line) and not line.startswith("#") for line in body)

    assert {name: text.count("\n") for name, text in modules.items() if text.count("\n") > 400} == {}
    assert {name: n_lines for name, n_lines in functions.items() if n_lines > 50} == {}
