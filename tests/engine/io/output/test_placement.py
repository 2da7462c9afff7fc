from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import zarr

from qmcif_engine.errors import OutputError
from qmcif_engine.io.output.formats import check_target, write_image
from qmcif_engine.io.output.placement import check_sources_kept

SAMPLES = np.arange(600, dtype=np.uint16).reshape(20, 30)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refusal(call, *arguments, **options) -> str:
    with pytest.raises(OutputError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def assert_written(target: Path, samples: np.ndarray = SAMPLES) -> None:
    np.testing.assert_array_equal(zarr.open_array(target / "0", mode="r")[...], samples)


def test_existing_store_is_replaced_only_when_asked(tmp_path):
    target = tmp_path / "p.ome.zarr"
    write_image(target, SAMPLES)
    for call in (lambda **options: check_target(target, **options), lambda **options: write_image(target, SAMPLES + 1, **options)):
        assert "p.ome.zarr' exists already; a new name is needed" in refusal(call, overwrite=False)
    assert_written(target)
    (target / "stale").write_bytes(b"of the old one")
    write_image(target, SAMPLES + 1, overwrite=True)
    assert_written(target, SAMPLES + 1)
    assert not (target / "stale").exists()
    assert names_in(tmp_path) == ["p.ome.zarr"]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", ["group", "array"])
def test_stores_of_others_may_be_replaced(tmp_path, zarr_format, kind):
    target = tmp_path / "p.zarr"
    if kind == "group":
        zarr.create_group(target, zarr_format=zarr_format)
    else:
        zarr.create_array(target, shape=(3,), dtype="uint8", zarr_format=zarr_format)
    check_target(target, overwrite=True)
    write_image(target, SAMPLES, overwrite=True)
    assert_written(target)


@pytest.mark.parametrize("content", [None, b"not json", b"[]", b'{"zarr_format": 9}'])
def test_a_folder_that_is_no_store_is_never_removed(tmp_path, content):
    target = tmp_path / "p.ome.zarr"
    target.mkdir()
    (target / "precious").write_bytes(b"precious")
    if content is not None:
        (target / "zarr.json").write_bytes(content)
    expected = "p.ome.zarr' is a folder without a Zarr group; what it holds would be lost; remove it yourself or choose another name"
    assert expected in refusal(check_target, target, overwrite=True)
    assert expected in refusal(write_image, target, SAMPLES, overwrite=True)
    assert (target / "precious").read_bytes() == b"precious"
    assert names_in(tmp_path) == ["p.ome.zarr"]


def test_a_file_or_a_link_is_not_replaced_by_a_store(tmp_path):
    (tmp_path / "file.zarr").write_bytes(b"precious")
    write_image(tmp_path / "real.zarr", SAMPLES)
    (tmp_path / "link.zarr").symlink_to(tmp_path / "real.zarr")
    assert "file.zarr' is a file; a Zarr folder or a new name is needed; choose another one" in refusal(
        check_target, tmp_path / "file.zarr", overwrite=True
    )
    assert "link.zarr' is a link; a Zarr folder or a new name is needed; name the folder itself" in refusal(
        check_target, tmp_path / "link.zarr", overwrite=True
    )
    assert_written(tmp_path / "real.zarr")


@pytest.mark.parametrize("rival", ["folder", "file"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch, rival, overwrite):
    target = tmp_path / "p.zarr"

    def appear(_descriptor):
        if rival == "file":
            target.write_bytes(b"rival")
        else:
            (target / "rival").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(os, "fsync", appear)
    message = refusal(write_image, target, SAMPLES, overwrite=overwrite)
    expected = ("is a file" if rival == "file" else "is a folder without") if overwrite else "exists already"
    assert expected in message
    assert names_in(tmp_path) == ["p.zarr"]


def test_a_name_that_is_taken_at_the_very_last_moment_is_not_replaced(tmp_path, monkeypatch):
    ordinary = Path.rename

    def rename(self, target):
        (target / "rival").mkdir(parents=True)
        return ordinary(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    assert "cannot be written" in refusal(write_image, tmp_path / "p.zarr", SAMPLES)
    assert names_in(tmp_path / "p.zarr") == ["rival"]
    assert names_in(tmp_path) == ["p.zarr"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
def test_the_old_store_comes_back_when_the_new_one_cannot_take_its_name(tmp_path, monkeypatch, error):
    target = tmp_path / "p.zarr"
    write_image(target, SAMPLES)
    ordinary = Path.rename
    calls = []

    def fail_second(self, new):
        calls.append(1)
        if len(calls) == 2:
            raise error
        return ordinary(self, new)

    monkeypatch.setattr(Path, "rename", fail_second)
    with pytest.raises((KeyboardInterrupt, OutputError)):
        write_image(target, SAMPLES + 1, overwrite=True)
    assert_written(target)
    assert names_in(tmp_path) == ["p.zarr"]


def test_all_files_and_folders_are_synced_before_the_store_has_its_name(tmp_path, monkeypatch):
    synced = []

    def record(descriptor):
        assert (
            not (tmp_path / "p.zarr").exists()
            or synced[-1] == tmp_path.stat().st_ino
            or os.fstat(descriptor).st_ino == tmp_path.stat().st_ino
        )
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", record)
    write_image(tmp_path / "p.zarr", SAMPLES)
    monkeypatch.undo()
    inside = {path.stat().st_ino for path in (tmp_path / "p.zarr").rglob("*")} | {(tmp_path / "p.zarr").stat().st_ino}
    assert inside <= set(synced)
    assert synced[-1] == tmp_path.stat().st_ino


def test_inputs_inside_the_store_to_be_replaced_are_kept(tmp_path):
    write_image(tmp_path / "p.zarr", SAMPLES)
    for source in (tmp_path / "p.zarr", tmp_path / "p.zarr" / "0", tmp_path / "p.zarr" / "0" / "zarr.json"):
        with pytest.raises(OutputError, match=r"p\.zarr' is the input '.*', which would be lost"):
            check_sources_kept([tmp_path / "p.zarr"], [source])
    check_sources_kept([tmp_path / "q.zarr", tmp_path / "p.png"], [tmp_path / "p.zarr"])


def test_nothing_is_put_into_a_store_that_is_an_input(tmp_path):
    write_image(tmp_path / "p.zarr", SAMPLES)
    for inside in (tmp_path / "p.zarr" / "q.ome.zarr", tmp_path / "p.zarr" / "0" / "fused.png"):
        with pytest.raises(OutputError, match=r"lies in the input '.*p\.zarr', which must not change; a place outside is needed"):
            check_sources_kept([inside], [tmp_path / "p.zarr"])
    check_sources_kept([tmp_path / "a\0b.png"], [tmp_path / "p.zarr"])
