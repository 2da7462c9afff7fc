"""The public names resolve, lazily, and are few."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

import qmcif_engine

STUB = ast.parse(Path(qmcif_engine.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
HOMES = {alias.name: node.module for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names}
PUBLIC = sorted(HOMES)
FUNCTIONS = sorted(name for name in qmcif_engine.__all__ if inspect.isfunction(getattr(qmcif_engine, name)))


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_resolves_once_and_is_listed(name):
    value = getattr(qmcif_engine, name)

    assert vars(qmcif_engine)[name] is value is getattr(import_module(HOMES[name]), name)
    assert name in dir(qmcif_engine)


def test_public_contract_stays_small():
    assert len(qmcif_engine.__all__) <= 30


def test_what_is_public_but_not_called_is_a_type():
    assert set(qmcif_engine.__all__) <= set(PUBLIC)
    assert all(inspect.isclass(getattr(qmcif_engine, name)) for name in set(PUBLIC) - set(qmcif_engine.__all__))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring_of_its_own(name):
    value = getattr(qmcif_engine, name)

    assert not callable(value) or (value.__doc__ and not value.__doc__.startswith(f"{name}("))  # what a dataclass writes is none


@pytest.mark.parametrize("name", FUNCTIONS)
def test_whatever_a_public_function_takes_or_returns_is_public(name):
    assert classes_in_signature(getattr(qmcif_engine, name)) <= public_classes()


def test_whatever_a_stack_has_is_public():
    stack = qmcif_engine.Stack
    methods = [value for name, value in vars(stack).items() if inspect.isfunction(value) and not name.startswith("_")]
    named = set().union(*map(classes_in_signature, methods), classes_in_signature(stack))

    assert qmcif_engine.ImageMetadata in named
    assert named <= public_classes()


def test_every_public_class_is_there_for_a_public_signature():
    named = set().union(*(classes_in_signature(getattr(qmcif_engine, name)) for name in FUNCTIONS))
    parts = {qmcif_engine.Window, qmcif_engine.ImageMetadata, qmcif_engine.FocusRange}  # of stacks and of results
    parts |= {qmcif_engine.WrittenImage}  # what callers open images with
    parts |= {qmcif_engine.CompilationListener}  # what waits for a first run
    errors = {cls for cls in public_classes() if issubclass(cls, Exception)}

    assert public_classes() - errors == (named | parts) - errors


def public_classes():
    """Return the classes among the public names."""
    values = [getattr(qmcif_engine, name) for name in PUBLIC]
    return {value for value in values if inspect.isclass(value)}


def classes_in_signature(value):
    """Return the classes of the engine that the annotations of a function, or the attributes of a class, name."""
    names = vars(sys.modules[value.__module__]) | imported_for_types(sys.modules[value.__module__])
    words = {node.id for text in value.__annotations__.values() for node in ast.walk(ast.parse(str(text))) if isinstance(node, ast.Name)}
    return set().union(*(classes_of(names[word]) for word in words if word in names))


def imported_for_types(module):
    """Return what a module imports from the engine, for the type checker alone too."""
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in imports if str(node.module).startswith("qmcif_engine")]
    return {alias.name: getattr(import_module(node.module), alias.name) for node in ours for alias in node.names}


def classes_of(kind):
    """Return the classes of the engine in a type: itself, or the parts of an alias such as a union."""
    if inspect.isclass(kind) and not get_args(kind):
        return {kind} if kind.__module__.startswith("qmcif_engine") else set()
    return set().union(*map(classes_of, get_args(kind)))


def test_unknown_name_is_refused_with_the_names_there_are():
    with pytest.raises(AttributeError, match=r"has no attribute 'fuze'; its public names are: .*fuse") as refusal:
        _ = qmcif_engine.fuze
    assert str(refusal.value).rpartition(": ")[2].split(", ") == PUBLIC


def test_import_loads_no_heavy_package():
    program = "import sys, qmcif_engine; dir(qmcif_engine); print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()

    assert not {"PIL", "dask", "napari", "numba", "numpy", "scipy", "sklearn", "tifffile"} & set(loaded)
