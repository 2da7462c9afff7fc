"""Alignment from the command line: what cannot be meant is refused before the work, and transforms are kept and used again."""

import numpy as np
import pytest

from qmcif_engine.cli import main
from qmcif_engine.cli.options import MODELS
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.io.output.transform_files import save_transforms
from qmcif_engine.stack.alignment.transforms import IDENTITY, TransformModel, Transforms
from qmcif_engine.stack.synthetic import make_focus_stack

SHAPE = (40, 48)
FAST = ["--set", "effort=fast", "--quiet"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    for number, image in enumerate(make_focus_stack(n_images=3, shape=SHAPE).images):
        write_image(tmp_path / "in" / f"{number}.png", image)
    moved = ((1.0, 0.0, 2.0), IDENTITY[1], IDENTITY[2])
    known = Transforms(matrices=(moved, IDENTITY, IDENTITY), model=TransformModel.TRANSLATION, image_shape=SHAPE, reference=1)
    save_transforms(tmp_path / "known.json", known)
    return tmp_path


def test_transforms_and_results_need_names_of_their_own(folder, capsys):
    assert main(["fuse", "in", "-o", "f.png", "--align", "translation", "--transforms", "f.png", *FAST]) == 2

    assert "'f.png' is to hold both a result and the transforms; a name of its own is needed for each" in capsys.readouterr().err
    assert not (folder / "f.png").exists()


@pytest.mark.parametrize("arguments", [["--align", "similarity"], ["--align", "none"], ["--reference", "1"]])
def test_options_that_known_transforms_contradict_are_refused(folder, capsys, arguments):
    assert main(["fuse", "in", "-o", "f.png", "--transforms", "known.json", *arguments, *FAST]) == 2

    message = "'known.json' holds transforms of the model translation and the reference 2; --align and --reference must say the same"
    assert message in capsys.readouterr().err
    assert not (folder / "f.png").exists()


def test_known_transforms_are_used_with_or_without_the_options_that_made_them(folder):
    assert main(["fuse", "in", "-o", "unmoved.png", *FAST]) == 0
    assert main(["fuse", "in", "-o", "a.png", "--transforms", "known.json", *FAST]) == 0
    assert main(["fuse", "in", "-o", "b.png", "--transforms", "known.json", "--align", "translation", "--reference", "2", *FAST]) == 0

    assert (folder / "a.png").read_bytes() == (folder / "b.png").read_bytes() != (folder / "unmoved.png").read_bytes()


def test_where_found_transforms_are_kept_is_told(folder, capsys):
    arguments = ["--align", "translation", "--transforms", "new.json", "--set", "effort=fast"]
    assert main(["fuse", "in", "-o", "f.png", *arguments]) == 0

    assert "the transforms are kept in 'new.json'" in capsys.readouterr().err
    assert (folder / "new.json").is_file()


def test_a_stack_that_drifts_in_color_gets_a_hint_and_is_changed_only_when_asked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    scene = 60 + 0.6 * make_focus_stack(n_images=4, shape=(120, 160), seed=2).images
    for number, image in enumerate(scene * np.linspace(1, [1, 1, 0.8], 4)[:, None, None]):
        write_image(tmp_path / "in" / f"{number}.png", image.astype(np.uint8))
    told = {}
    for name, arguments in {"plain": [], "even": ["--even-exposure"], "quiet": ["--quiet"], "json": ["--json"]}.items():
        assert main(["fuse", "in", "-o", f"{name}.png", "--set", "effort=fast", *arguments]) == 0
        told[name] = "differ in brightness or color by about" in capsys.readouterr().err

    assert told == {"plain": True, "even": False, "quiet": False, "json": False}
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "json.png").read_bytes() != (tmp_path / "even.png").read_bytes()


def test_every_model_can_be_asked_for():
    assert tuple(TransformModel) == MODELS


def test_a_homography_can_be_fused_by(folder):
    tilted = ((1.0, 0.0, 1.0), IDENTITY[1], (1e-3, -1e-3, 1.0))
    known = Transforms(matrices=(tilted, IDENTITY, IDENTITY), model=TransformModel.HOMOGRAPHY, image_shape=SHAPE, reference=1)
    save_transforms(folder / "tilted.json", known)

    assert main(["fuse", "in", "-o", "a.png", "--transforms", "tilted.json", "--align", "homography", *FAST]) == 0
    assert main(["fuse", "in", "-o", "unmoved.png", *FAST]) == 0
    assert (folder / "a.png").read_bytes() != (folder / "unmoved.png").read_bytes()
