"""A part of what ``make attack`` does: 500 damaged inputs, none of which ends in a traceback, a hang or much memory."""

import sys
from pathlib import Path

import pytest

ATTACK = Path(__file__).parents[1] / "tools" / "attack"
N_CASES = 500
SEED = 2026

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of processes and forks, as on Linux")


@pytest.fixture
def attack(monkeypatch):
    """The attack, whose modules import each other as when it is run."""
    monkeypatch.syspath_prepend(str(ATTACK))
    import mutation_attack

    return mutation_attack


@pytest.mark.slow
def test_damaged_inputs_are_refused_or_fused(attack):
    tally = attack.attack(range(N_CASES), seed=SEED)

    assert tally.n_cases == N_CASES
    assert tally.faults == []
    assert {kind for kind, _ in tally.outcomes} == set(attack.SEEDS)
    assert {verdict for _, verdict in tally.outcomes} == {"fused", "refused"}


@pytest.mark.parametrize(
    ("outcome", "has_output", "left", "verdict"),
    [
        ({}, True, ["in", "fused.ome.tif"], "fused"),
        ({"returncode": 2}, False, ["in"], "refused"),
        ({"returncode": 2}, True, ["in", "fused.ome.tif"], "output in spite of refusal"),
        ({"returncode": 2}, False, ["in", "fused.ome.tif.qmcif-job"], "leftovers"),
        ({}, False, ["in"], "no output"),
        ({"returncode": 1}, False, ["in"], "exit code 1"),
        ({"returncode": 1, "stderr": "Traceback (most recent call last):"}, False, ["in"], "traceback"),
        ({"stderr": "x.py:1: RuntimeWarning: overflow"}, True, ["in"], "traceback"),
        ({"returncode": -27}, False, ["in"], "hang"),
        ({"returncode": -14}, False, ["in"], "hang"),
        ({"returncode": -11}, False, ["in"], "crash by signal 11"),
        ({"peak_bytes": 1_600_000_000}, True, ["in"], "too much memory"),
    ],
)
def test_every_fault_is_seen(attack, outcome, has_output, left, verdict):
    from limited_commands import Outcome

    known = {"returncode": 0, "stdout": "", "stderr": "", "cpu_seconds": 0.1, "wall_seconds": 0.1, "peak_bytes": 10**8}

    assert attack.judge(Outcome(**(known | outcome)), has_output=has_output, left=left) == verdict


def test_every_seed_is_a_sound_input(attack, tmp_path):
    from limited_commands import LimitedCommands

    with LimitedCommands() as commands:
        for number, (kind, write) in enumerate(attack.SEEDS.items()):
            folder = tmp_path / str(number)
            folder.mkdir()
            inputs = write(folder)
            done = commands.run("fuse", *inputs, "-o", "out.ome.tif", "--channels", "1", cpu_seconds=60, n_bytes=4 * 10**9, folder=folder)
            assert done.returncode == 0, (kind, done)


def test_a_case_is_the_same_whenever_it_is_run(attack, tmp_path):
    import random

    from damage import damage

    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        attack.SEEDS["PNG"](tmp_path / name)
        told = damage(tmp_path / name, random.Random("1 2"))
        contents.append((told, [path.read_bytes() for path in sorted((tmp_path / name).iterdir())]))

    assert contents[0] == contents[1]
