"""Tiles on disk: whole or not there, used again only for the same run, gone when the run is over."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.errors import ExecutionError, OutputError
from qmcif_engine.run.job import Job, PartKind, PlaneKind
from qmcif_engine.stack.window import Window
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import FusedTile

PLAN = plan_tiles((150, 170), FusionConfig().replaced({"tile_px": 64}))
PARTS = [PartKind(999, ("fused", "source_index"))]
PLANES = {"fused": PlaneKind(np.dtype(np.uint8), (3,)), "source_index": PlaneKind(np.dtype(np.uint16))}


def whole_result():
    generator = np.random.default_rng(0)
    return generator.integers(0, 255, (150, 170, 3), dtype=np.uint8), generator.integers(0, 999, (150, 170), dtype=np.uint16)


def tile_result(tile):
    fused, index = whole_result()
    blank = np.zeros(tile.core.shape, np.float32)
    return FusedTile(fused=fused[tile.core.slices], source_index=index[tile.core.slices], confidence=blank, input_digest=bytes(range(32)))


def missing(job):
    return tuple(tile for tile in PLAN if not job.is_finished(0, tile))


def begun(folder, identity="same", **options):
    job = Job(folder / "out.tif.qmcif-job", PLAN, PLANES, parts=PARTS, chunk_px=64)
    job.begin(identity, **({"resume": False, "overwrite": False} | options))
    job.release()  # as if the process had ended: tests of the lock are beside
    return job


def test_finished_tiles_are_found_again_and_the_picture_is_read_by_window(tmp_path):
    job = begun(tmp_path)
    assert missing(job) == PLAN[:]
    for tile in PLAN[:4]:
        job.write(0, tile, tile_result(tile))

    resumed = begun(tmp_path, resume=True)
    assert missing(resumed) == PLAN[4:]
    for tile in missing(resumed):
        resumed.write(0, tile, tile_result(tile))

    fused, index = whole_result()
    assert missing(resumed) == ()
    assert resumed.receipt(0, PLAN[3]).input_digest == bytes(range(32)).hex()
    for name, expected in (("fused", fused), ("source_index", index)):
        picture = resumed.image(0, name)
        assert (picture.shape, picture.dtype) == (expected.shape, expected.dtype)
        for window in (Window.whole(expected.shape), Window(50, 40, 121, 170), Window(7, 9, 8, 10)):
            np.testing.assert_array_equal(picture.read(window), expected[window.slices])


def test_half_a_tile_does_not_count(tmp_path):
    job = begun(tmp_path)
    job.write(0, PLAN[0], tile_result(PLAN[0]))
    (written,) = job.folder.glob("tile-*")
    written.write_bytes(written.read_bytes()[:-1])
    (job.folder / "tile-000001.unfinished").write_bytes(b"x")

    assert missing(begun(tmp_path, resume=True)) == PLAN[:]


def test_an_unfinished_run_is_neither_used_nor_lost_unasked(tmp_path):
    begun(tmp_path).write(0, PLAN[0], tile_result(PLAN[0]))

    with pytest.raises(OutputError, match=r"an unfinished run is in .*--resume.*--overwrite"):
        begun(tmp_path)
    assert len(missing(begun(tmp_path, resume=True))) == len(PLAN) - 1
    assert len(missing(begun(tmp_path, overwrite=True))) == len(PLAN)


def test_other_images_or_settings_are_refused(tmp_path):
    begun(tmp_path)

    with pytest.raises(OutputError, match="other images, settings or another version"):
        begun(tmp_path, identity="other", resume=True)


DAMAGED = [{"name": 1}, {"identity": "same"}, {"identity": "same", "run": "../elsewhere"}, {"identity": "same", "run": 3}]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe", *(json.dumps(damaged).encode() for damaged in DAMAGED)])
def test_a_damaged_description_is_refused(tmp_path, content):
    job = begun(tmp_path)
    (job.folder / "job.json").write_bytes(content)

    with pytest.raises(OutputError, match="is not an unfinished run of this program"):
        begun(tmp_path, resume=True)


def test_a_late_tile_of_a_run_that_was_thrown_away_is_not_taken_for_one_of_the_next(tmp_path):
    late = begun(tmp_path)
    following = begun(tmp_path, overwrite=True)
    with pytest.raises(ExecutionError, match="was removed while a run was putting its tiles there"):
        late.write(0, PLAN[0], tile_result(PLAN[0]))

    assert missing(following) == PLAN[:]


def test_resuming_without_an_unfinished_run_starts_one(tmp_path):
    assert missing(begun(tmp_path, resume=True)) == PLAN[:]


def test_a_folder_that_is_no_job_is_never_deleted(tmp_path):
    stranger = tmp_path / "out.tif.qmcif-job"
    stranger.mkdir()
    (stranger / "holiday.jpg").write_bytes(b"precious")

    with pytest.raises(OutputError, match=r"is not an unfinished run of this program; it holds other files: move it away"):
        begun(tmp_path, overwrite=True)
    assert (stranger / "holiday.jpg").read_bytes() == b"precious"


def test_removing_leaves_nothing(tmp_path):
    job = begun(tmp_path)
    job.write(0, PLAN[0], tile_result(PLAN[0]))
    job.remove()

    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_reported_with_its_error_number_and_leaves_no_half_tile(tmp_path, monkeypatch):
    job = begun(tmp_path)

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OutputError, match="No space left on device") as caught:
        job.write(0, PLAN[0], tile_result(PLAN[0]))
    monkeypatch.undo()

    assert caught.value.errno == 28
    assert not list(job.folder.glob("*.unfinished"))
    assert missing(job) == PLAN[:]


def test_a_job_in_use_is_neither_gone_on_with_nor_thrown_away(tmp_path):
    running = Job(tmp_path / "out.tif.qmcif-job", PLAN, PLANES, parts=PARTS, chunk_px=64)
    running.begin("same", resume=False, overwrite=False)
    running.write(0, PLAN[0], tile_result(PLAN[0]))

    for options in ({"resume": True}, {"overwrite": True}, {}):
        with pytest.raises(OutputError, match=r"a run is going on in .*: process \d+ on .*, since \d{4}-.*; one run at a time"):
            begun(tmp_path, **options)
    assert running.is_finished(0, PLAN[0])
    running.release()
    assert len(missing(begun(tmp_path, resume=True))) == len(PLAN) - 1


def test_a_job_gets_its_name_when_it_is_complete(tmp_path, monkeypatch):
    seen = []
    rename = Path.rename

    def watch(self, target):
        if self.is_dir():
            seen.append((Path(target).name, sorted(path.name for path in self.iterdir())))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", watch)
    begun(tmp_path)

    assert seen == [("out.tif.qmcif-job", ["job.json", "lock"])]


def test_another_run_that_begins_at_the_same_time_is_told_of_the_first(tmp_path, monkeypatch):
    second = Job(tmp_path / "out.tif.qmcif-job", PLAN, PLANES, parts=PARTS, chunk_px=64)
    ordinary = Path.exists
    first = []

    def begin_first(self):
        if self.name.endswith(".qmcif-job") and not first:
            first.append(Job(self, PLAN, PLANES, parts=PARTS, chunk_px=64))
            first[0].begin("same", resume=False, overwrite=False)
            return False
        return ordinary(self)

    monkeypatch.setattr(Path, "exists", begin_first)
    with pytest.raises(OutputError, match="a run is going on in"):
        second.begin("same", resume=False, overwrite=False)
    first[0].write(0, PLAN[0], tile_result(PLAN[0]))
    assert [path.name for path in tmp_path.iterdir()] == ["out.tif.qmcif-job"]


@pytest.mark.parametrize("name", ["fused-*/c.*", "source_index-*/c.*", "tile-*"])
@pytest.mark.parametrize("position", [0, 60, -1, -20])
def test_a_tile_whose_bytes_changed_on_the_disk_is_not_used(tmp_path, name, position):
    job = begun(tmp_path)
    job.write(0, PLAN[0], tile_result(PLAN[0]))
    job.check_finished(0, PLAN[0])
    (written,) = job.folder.glob(name)
    content = bytearray(written.read_bytes())
    content[position] ^= 1
    written.write_bytes(content)

    assert not job.is_finished(0, PLAN[0])
    with pytest.raises(ExecutionError, match=r"tile .* changed on the disk after it was written.*--resume"):
        job.check_finished(0, PLAN[0])


def test_a_tile_under_the_name_of_another_is_not_used(tmp_path):
    job = begun(tmp_path)
    first, second = PLAN[0], next(tile for tile in PLAN[1:] if tile.core.shape == PLAN[0].core.shape)
    job.write(0, first, tile_result(first))
    for written in [*job.folder.glob("tile-*"), *job.folder.glob("*.zarr/c.*")]:
        renamed = (
            f"{written.name[:-1]}{second.number}" if written.name.startswith("tile") else written.name[:-1] + str(second.core.left // 64)
        )
        written.with_name(renamed).write_bytes(written.read_bytes())

    assert not job.is_finished(0, second)


def test_the_only_tile_there_is_stays_in_memory(tmp_path):
    plan = plan_tiles((40, 50), FusionConfig())
    job = Job(tmp_path / "out.tif.qmcif-job", plan, PLANES, parts=PARTS)
    job.begin("same", resume=False, overwrite=False)
    (tile,) = plan
    result = tile_result(tile)
    job.write(0, tile, result)

    np.testing.assert_array_equal(job.image(0, "fused").read(tile.core), result.fused)
    assert sorted(path.name for path in job.folder.iterdir()) == ["job.json", "lock"]
    assert sum(job.receipt(0, tile).pixels_by_image) == 40 * 50
    job.abort()
    assert list(tmp_path.iterdir()) == []


def test_what_a_fusion_is_made_of_is_noted_once_and_compared(tmp_path):
    begun(tmp_path).begin_part(0, "one")
    resumed = begun(tmp_path, resume=True)
    resumed.begin_part(0, "one")

    with pytest.raises(OutputError, match="other images, settings or another version"):
        resumed.begin_part(0, "other")


def test_a_removed_folder_is_named_as_such(tmp_path):
    job = begun(tmp_path)
    shutil.rmtree(job.folder)

    with pytest.raises(ExecutionError, match=r"qmcif-job' was removed while a run was putting its tiles there"):
        job.write(0, PLAN[0], tile_result(PLAN[0]))
