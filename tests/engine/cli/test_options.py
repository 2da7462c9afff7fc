"""One table of options, from which every command gets one request that cannot be changed."""

import dataclasses
from pathlib import Path

import pytest

from qmcif_engine.cli import parser
from qmcif_engine.cli.options import COMMANDS, Request, spell
from qmcif_engine.errors import InvalidConfigError

FIELDS = [item.name for item in dataclasses.fields(Request) if item.metadata]


@pytest.fixture
def requested(monkeypatch):
    """Returns the request that a command line makes; the command itself is not run."""
    requests = []
    module = type("Module", (), {"run": staticmethod(requests.append)})
    monkeypatch.setattr(parser, "import_module", lambda name: module)

    def ask(*words):
        options = parser.parse_command_line(words)
        options.run(options)
        return requests[-1]

    return ask


def test_every_option_belongs_to_a_command_and_every_command_has_known_options():
    used = [name for command in COMMANDS.values() for name in command.options.split()]

    assert set(used) == set(FIELDS)
    assert all(set(command.respelled) <= set(command.options.split()) for command in COMMANDS.values())


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (["info", "a.tif"], {"images": [Path("a.tif")]}),
        (["fuse", "a", "b", "-o", "o.png", "--exclude", "3", "--exclude", "x*"], {"output": Path("o.png"), "exclude": [3, "x*"]}),
        (["fuse", "a", "-o", "o.png", "--focus-range", "-1e3", "5", "--memory", "1KB"], {"focus_range": [[-1000.0, 5.0]], "memory": 1000}),
        (["batch", "r", "-o", "o", "--maps", "--depth"], {"root": Path("r"), "maps": True, "depth": True}),
        (["align", "a", "-o", "o.tif", "--align", "affine"], {"align": "affine"}),
        (["align", "a", "-o", "o.tif", "--model", "affine"], {"align": "affine"}),
        (["surface", "h.tif", "-o", "o.obj", "--image", "i.tif"], {"heights": Path("h.tif"), "texture": Path("i.tif")}),
        (["clean", "--jobs"], {"unfinished": True, "folders": ()}),
        (["benchmark", "d", "-o", "r", "--jobs", "2", "--preset", "fast"], {"jobs": 2, "presets": ["fast"], "preset": "default"}),
        (["demo"], {}),
    ],
)
def test_what_is_given_is_in_the_request_and_all_else_has_its_default(requested, words, given):
    request = requested(*words)

    assert {name: getattr(request, name) for name in given} == given
    assert request.words == list(words)
    positional = {"images", "output", "root", "heights", "dataset"}
    kept = {name for name in FIELDS if getattr(request, name) == getattr(Request(), name)}
    assert kept >= set(FIELDS) - set(given) - positional
    with pytest.raises(dataclasses.FrozenInstanceError, match="output"):
        request.output = None


@pytest.mark.parametrize(
    ("words", "arguments"),
    [
        ("--quiet", {"flags": ["--quiet"], "action": "store_true"}),
        ("-o --output OUT", {"flags": ["-o", "--output"], "metavar": "OUT"}),
        ("INPUT+", {"flags": [], "metavar": "INPUT", "nargs": "+"}),
        ("DIR*", {"flags": [], "metavar": "DIR", "nargs": "*"}),
        ("--line X0 Y0 X1 Y1", {"flags": ["--line"], "metavar": ("X0", "Y0", "X1", "Y1"), "nargs": 4, "type": float}),
    ],
)
def test_a_usage_says_what_argparse_has_to_know(words, arguments):
    spelled = spell(words, "what it does")

    assert {name: spelled.get(name) for name in arguments} == arguments
    assert spelled["help"] == "what it does"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fuse", "", "-o", "o.png"], "an empty name was given, the name of a file or folder is needed; see qmcif fuse --help$"),
        (["batch", "s3://b/r", "-o", "o"], "'s3://b/r' lies on a server, the name of a file or folder here is needed"),
        (["fuse", "a", "-o", "o.png", "--depth", ""], "an empty name was given"),
        (["fuse", "a", "-o", "o.png", "--order", "3,x"], "'3,x' was given, reversed or frame numbers with commas between them are needed"),
        (["fuse", "a", "-o", "o.png", "--workers", "0"], "'0' was given, a whole number of at least 1 is needed"),
        (["fuse", "a", "-o", "o.png", "--memory", "much"], "the amount of memory is 'much'; a number and a unit are needed"),
        (["fuse", "a", "-o", "o.png", "--crop", "--er"], "unrecognized arguments: --crop --er; see qmcif fuse --help$"),
        (["fuse", "a", "-o", "o.png", "--focus-range", "two\nlines", "3"], "invalid float value"),
        (["fuse", "a", "-o", "o.png", "--preset", "sharp"], "invalid choice: 'sharp'"),
        (["fuse", "a.png", "b.png"], "the following arguments are required: -o/--output; see qmcif fuse --help"),
        ([], "the following arguments are required: COMMAND; see qmcif --help"),
        (["melt"], "'melt'"),
        (["demo", "here"], "unrecognized arguments: here; see qmcif demo --help"),
    ],
)
def test_words_that_mean_nothing_are_refused_with_the_command_whose_help_says_more(words, message):
    with pytest.raises(InvalidConfigError, match=message):
        parser.parse_command_line(words)
