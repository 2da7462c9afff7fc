"""``qmcif evaluate`` prints what the function returns, and names what it cannot judge."""

from __future__ import annotations

import json

import numpy as np
import pytest

from qmcif_engine.cli import evaluate_command, main
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.metrics import evaluate
from qmcif_engine.stack.synthetic import make_focus_stack


@pytest.fixture(scope="module")
def stack():
    return make_focus_stack(n_images=3, shape=(48, 64), seed=4)


@pytest.fixture
def files(stack, tmp_path):
    """Name a file of the scene: a, b, c, fused (which is c) or truth."""
    pictures = dict(zip("abc", stack.images, strict=True)) | {"fused": stack.images[2], "truth": stack.truth}
    for name, picture in pictures.items():
        write_image(tmp_path / f"{name}.png", picture)
    return lambda name: str(tmp_path / f"{name}.png")


def refused(capsys, arguments):
    """Run the command, check that it refuses in one line without a traceback, and return the line."""
    assert main(["evaluate", *arguments]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_json_holds_the_figures_of_the_function(stack, files, capsys):
    arguments = [*map(files, "abc"), "--fused", files("fused"), "--truth", files("truth"), "--border", "3", "--json"]
    assert main(["evaluate", *arguments]) == 0

    shown = json.loads(capsys.readouterr().out)
    expected = evaluate(list(stack.images), stack.images[2], truth=stack.truth, border_px=3)
    assert shown["figures"] == expected.list_by_symbol()
    assert shown["sources"] == [files(name) for name in "abc"]
    assert (shown["fused"], shown["truth"]) == (files("fused"), files("truth"))


@pytest.mark.parametrize("suffix", ["ome.zarr", "ome.tif", "png"])
def test_pictures_that_are_read_by_window_have_the_same_figures(stack, tmp_path, capsys, monkeypatch, suffix):
    """Zarr always is; with the limit at 0 all formats are, as large ones would be."""
    if suffix != "ome.zarr":
        monkeypatch.setattr(evaluate_command, "LARGEST_WHOLE_PX", 0)
    paths = [str(tmp_path / f"{name}.{suffix}") for name in ("first", "second", "fused")]
    for path, picture in zip(paths, (*stack.images[:2], stack.truth), strict=True):
        write_image(tmp_path / path, picture)

    assert main(["evaluate", *paths[:2], "--fused", paths[2], "--json"]) == 0

    assert json.loads(capsys.readouterr().out)["figures"] == evaluate(list(stack.images[:2]), stack.truth).list_by_symbol()


def test_transparent_pixels_of_pictures_that_are_read_by_window_are_refused(stack, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(evaluate_command, "LARGEST_WHOLE_PX", 0)
    alphas = [np.full(stack.truth.shape[:2], 255, np.uint8) for _ in range(3)]
    alphas[1][3, 4] = 254
    paths = [str(tmp_path / f"{number}.png") for number in range(3)]
    for path, alpha in zip(paths, alphas, strict=True):
        write_image(tmp_path / path, stack.truth, alpha=alpha)

    assert "1.png' has transparent pixels; an opaque image is needed" in refused(capsys, [*paths[:2], "--fused", paths[2]])


def test_the_table_is_aligned_and_without_a_truth_has_the_six_metrics(stack, files, capsys):
    assert main(["evaluate", files("a"), files("b"), "--fused", files("fused")]) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = evaluate(list(stack.images[:2]), stack.images[2])

    assert [line.split()[0] for line in lines] == ["Q_MI", "Q_G", "Q_P", "Q_E", "Q_Y", "Q_CB"]
    assert lines[0].split()[1] == f"{expected.mutual_information:.4f}"
    assert len({line.index(".") for line in lines}) == 1


def test_with_a_truth_decibels_are_named(files, capsys):
    assert main(["evaluate", files("a"), files("b"), "--fused", files("fused"), "--truth", files("truth")]) == 0
    lines = capsys.readouterr().out.splitlines()
    decibels = [line for line in lines if line.startswith("PSNR")]

    assert len(decibels) == 2
    assert all(line.endswith(" dB") for line in decibels)
    assert len({line.index(".") for line in lines}) == 1


def test_a_given_range_brings_floats_to_eight_bits(tmp_path, capsys):
    deep = make_focus_stack(n_images=2, shape=(48, 64), seed=4, dtype=np.float32)
    for name, image in (("a", deep.images[0]), ("b", deep.images[1]), ("f", deep.truth)):
        write_image(tmp_path / f"{name}.tif", image)
    request = [str(tmp_path / "a.tif"), str(tmp_path / "b.tif"), "--fused", str(tmp_path / "f.tif"), "--json"]
    assert main(["evaluate", *request, "--sample-range", "0", "1"]) == 0

    shown = json.loads(capsys.readouterr().out)["figures"]
    assert shown["Q_MI"] == evaluate(list(deep.images), deep.truth, sample_range=(0, 1)).mutual_information
    assert "sample range" in refused(capsys, request)


def test_bad_requests_are_refused_by_name(stack, files, tmp_path, capsys):
    def save(name, samples, **options):
        write_image(tmp_path / name, samples, **options)
        return str(tmp_path / name)

    a, b, fused = files("a"), files("b"), files("fused")
    small = save("small.png", stack.truth[:-1])
    deep = save("deep.png", stack.truth.astype(np.uint16))
    clear = save("clear.png", stack.truth, alpha=np.zeros((48, 64), np.uint8))
    requests = {
        "1 source was given; at least 2 are needed": [a, "--fused", fused],
        "small.png' (47, 64, 3); all must be equal": [a, b, "--fused", small],
        "small.png' (47, 64, 3)": [a, b, "--fused", fused, "--truth", small],
        "deep.png' uint16; all must be of one type": [a, b, "--fused", deep],
        "clear.png' has transparent pixels": [a, b, "--fused", clear],
        "gone.png' cannot be read": [a, b, "--fused", fused, "--truth", str(tmp_path / "gone.png")],
        "--border 4 was given without --truth": [a, b, "--fused", fused, "--border", "4"],
        "a border of -1 px": [a, b, "--fused", fused, "--truth", files("truth"), "--border", "-1"],
        "black below white": [a, b, "--fused", fused, "--sample-range", "9", "3"],
    }
    for expected, arguments in requests.items():
        assert expected in refused(capsys, arguments)
