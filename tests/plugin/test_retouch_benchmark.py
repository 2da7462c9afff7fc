"""The benchmark of retouching keeps running: here on a small image, once."""

import runpy
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "retouch.py"


def test_the_benchmark_names_every_size_of_stroke(capsys, monkeypatch, qapp):
    script = runpy.run_path(str(BENCHMARK))
    script["main"].__globals__.update(SHAPE=(700, 800), N_REPEATS=1)
    monkeypatch.setattr("sys.argv", ["retouch.py", "--images", "2"])

    script["main"]()

    lines = capsys.readouterr().out.splitlines()
    assert [line.split("stroke")[1].split("px")[0].strip() for line in lines] == ["64 x  64", "256 x 256", "512 x 512"]
