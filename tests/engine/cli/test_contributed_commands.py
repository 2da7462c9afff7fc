"""Other packages may add commands, which cost nothing until they run."""

from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest

from qmcif_engine.cli import main, parser


@pytest.fixture
def contribute(monkeypatch):
    """Returns what registers a module of a made-up package as a command."""

    def register(**module):
        contributed = SimpleNamespace(HELP="greet a person", add_arguments=lambda parser: parser.add_argument("name"), **module)
        monkeypatch.setattr(EntryPoint, "load", lambda entry: contributed)
        entry = EntryPoint("greet", "made_up", parser.GROUP)
        monkeypatch.setattr(parser, "entry_points", lambda group: [entry] if group == parser.GROUP else [])

    return register


def test_a_contributed_command_runs_with_its_arguments(contribute, capsys):
    contribute(run=lambda options: print(f"hello {options.name}"))

    assert main(["greet", "Ada"]) == 0
    assert capsys.readouterr().out == "hello Ada\n"


def test_the_help_lists_it(contribute, capsys):
    contribute(run=lambda options: None)

    with pytest.raises(SystemExit):
        main(["--help"])
    assert "greet a person" in capsys.readouterr().out


def test_a_missing_package_is_named_with_what_to_install(contribute, capsys):
    def run(options):
        missing = "No module named 'napari'"
        raise ModuleNotFoundError(missing, name="napari")

    contribute(run=run)

    assert main(["greet", "Ada"]) == 2
    assert capsys.readouterr().err == (
        "qmcif: qmcif greet needs napari, which is not installed; install it with: pip install 'napari-qmcif[napari]'\n"
    )


def test_its_options_are_checked_like_those_of_any_command(contribute, capsys):
    contribute(run=lambda options: None)

    assert main(["greet"]) == 2
    assert "required: name; see qmcif greet --help" in capsys.readouterr().err


def test_the_viewer_of_the_plugin_is_contributed():
    assert parser.build_parser().parse_args(["view", "a.png", "b.png"]).images
