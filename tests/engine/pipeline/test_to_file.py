"""From a stack to files: the same bytes whatever happens on the way, and never half a result."""

import copy
import hashlib
import shutil
from dataclasses import replace

import numpy as np
import pytest
import tifffile
import zarr

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.depth import HeightRequest, height_map
from qmcif_engine.errors import Cancelled, ExecutionError, InvalidConfigError, InvalidImageError, OutputError
from qmcif_engine.io.output.moves import Journal, Move
from qmcif_engine.pipeline.file_run import FileRun
from qmcif_engine.pipeline.in_memory import fuse
from qmcif_engine.pipeline.outputs import Outputs
from qmcif_engine.pipeline.pipeline import Pipeline
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.run.job import Job
from qmcif_engine.run.lock import RunLock
from qmcif_engine.run.measurement import measure_run
from qmcif_engine.stack.stack import stack_arrays
from qmcif_engine.stack.synthetic import make_focus_stack
from qmcif_engine.tiles.output_maps import WRITTEN_MAPS
from qmcif_engine.tiles.task import TileTask
from tests.scenes import logged_stack

# a focus measure that is quick, since this is about what happens to tiles and not about what is in them
CONFIG = FusionConfig().replaced({"tile_px": 64, "smoothness": 0.0, "measure": "laplacian"})


@pytest.fixture(scope="module")
def images():
    return make_focus_stack(shape=(130, 150), n_images=2, seed=4).images


@pytest.fixture(scope="module")
def expected(images):
    return fuse(images, CONFIG, with_maps=True)


def make_task(stack):
    focus_range, measured = measure_run(stack, CONFIG, (0, 255))
    return TileTask(stack=stack, config=CONFIG, focus_range=focus_range, measured=measured)


def digests(folder):
    """Every file below a folder with the digest of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_the_files_hold_what_fuse_returns(images, expected, tmp_path):
    report = fuse_to_file(stack_arrays(images), tmp_path / "fused.tif", CONFIG, maps=tmp_path / "maps")

    np.testing.assert_array_equal(tifffile.imread(tmp_path / "fused.tif"), expected.fused)
    for name in WRITTEN_MAPS:
        np.testing.assert_array_equal(tifffile.imread(tmp_path / "maps" / f"{name}.tif"), getattr(expected, name))
    assert report.outputs == (tmp_path / "fused.tif", *(tmp_path / "maps" / f"{name}.tif" for name in WRITTEN_MAPS))
    assert (report.n_images, report.image_shape, report.dtype) == (2, (130, 150, 3), "uint8")
    assert (report.n_tiles, report.n_resumed, report.focus_range) == (9, 0, expected.focus_range)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fused.tif", "maps"]


@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.ome.zarr", "fused.png"])
def test_every_format_is_the_same_bytes_with_one_or_many_workers(images, tmp_path, name):
    for number, workers in enumerate((1, 3)):
        (tmp_path / str(number)).mkdir()
        fuse_to_file(stack_arrays(images), tmp_path / str(number) / name, CONFIG, workers=workers)

    assert digests(tmp_path / "0") == digests(tmp_path / "1")
    assert digests(tmp_path / "0")


@pytest.mark.parametrize("name", ["fused.ome.tif", "fused.ome.zarr"])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_run_goes_on_where_it_stopped_and_ends_with_the_same_bytes(images, tmp_path, workers, name):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    fuse_to_file(stack_arrays(images), whole / name, CONFIG, maps=whole / "maps")
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(images, fail_after=12), parts / name, CONFIG, maps=parts / "maps", workers=workers)
    assert [path.name for path in parts.iterdir()] == [f"{name}.qmcif-job"]

    report = fuse_to_file(stack_arrays(images), parts / name, CONFIG, maps=parts / "maps", resume=True, workers=workers)

    assert 0 < report.n_resumed < 9
    assert digests(parts) == digests(whole)


def test_only_missing_tiles_are_computed_again(images, tmp_path, monkeypatch):
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(images, fail_after=15), tmp_path / "f.tif", CONFIG, focus_range=(0, 255), workers=1)
    computed = []
    compute = TileTask.__call__

    def note(self, tile, **options):
        computed.append(tile.number)
        return compute(self, tile, **options)

    monkeypatch.setattr(TileTask, "__call__", note)
    report = fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, focus_range=(0, 255), workers=1, resume=True)

    assert report.n_resumed == 9 - len(computed) == 6
    assert computed == [6, 7, 8]


def test_a_tile_is_not_gone_on_with_when_only_its_overlap_changed(images, tmp_path):
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(images, fail_after=5), tmp_path / "f.tif", CONFIG, focus_range=(0, 255), workers=1)
    first, second = Pipeline.prepare(stack_arrays(images), CONFIG).plan[:2]
    assert len(list((tmp_path / "f.tif.qmcif-job").glob("tile-*"))) == 1
    others = images.copy()
    row, column = second.core.top + 5, second.core.left + 5  # in the overlap of the first tile, whose core does not hold it
    assert column < first.padded.right
    others[1, row, column] ^= 255

    with pytest.raises(OutputError, match="other images, settings or another version"):
        fuse_to_file(stack_arrays(others), tmp_path / "f.tif", CONFIG, focus_range=(0, 255), resume=True)


def test_cancelling_leaves_a_state_that_can_be_resumed(images, expected, tmp_path):
    seen = []
    with pytest.raises(Cancelled):
        fuse_to_file(
            stack_arrays(images), tmp_path / "f.tif", CONFIG, workers=1, on_progress=seen.append, is_cancelled=lambda: len(seen) > 10
        )
    assert [path.name for path in tmp_path.iterdir()] == ["f.tif.qmcif-job"]

    report = fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, resume=True)

    assert report.n_resumed == 3
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "f.tif"), expected.fused)


@pytest.mark.parametrize("place", ["os.fsync", "qmcif_engine.io.output.moves.sync_folder", "qmcif_engine.pipeline.pipeline.TileTask"])
def test_an_interruption_while_the_run_is_prepared_leaves_nothing(images, tmp_path, monkeypatch, place):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    with pytest.raises(KeyboardInterrupt):
        fuse_to_file(stack_arrays(images), tmp_path / "o.tif", CONFIG)

    assert list(tmp_path.iterdir()) == []


def test_cancelling_before_the_first_tile_leaves_nothing(images, tmp_path):
    with pytest.raises(Cancelled):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, is_cancelled=lambda: True)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", ["images", "sample", "settings"])
def test_resuming_with_other_images_or_settings_is_refused(images, tmp_path, change):
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(images, fail_after=12), tmp_path / "f.tif", CONFIG, workers=1)
    others = images[::-1] if change == "images" else images.copy()
    if change == "sample":
        others[1, 3, 5, 0] ^= 1
    config = CONFIG.replaced({"smoothness": 0.5}) if change == "settings" else CONFIG

    with pytest.raises(OutputError, match="other images, settings or another version"):
        fuse_to_file(stack_arrays(others), tmp_path / "f.tif", config, resume=True)


def test_an_existing_file_stays_unless_asked_and_nothing_is_computed_for_it(images, tmp_path):
    (tmp_path / "f.tif").write_bytes(b"precious")
    stack = logged_stack(images)

    with pytest.raises(OutputError, match="exists already"):
        fuse_to_file(stack, tmp_path / "f.tif", CONFIG)

    assert stack.read.places == []
    fuse_to_file(stack, tmp_path / "f.tif", CONFIG, overwrite=True)
    assert tifffile.imread(tmp_path / "f.tif").shape == (130, 150, 3)


def test_alpha_and_further_channels_follow_the_decisions(images, expected, tmp_path):
    numbered = [np.full((130, 150), 50 * (number + 1), np.uint8) for number in range(2)]
    fuse_to_file(stack_arrays(images).replaced(alpha=stack_arrays(numbered)), tmp_path / "alpha.tif", CONFIG)
    many = [np.dstack([image, image[..., :2]]) for image in images]
    fuse_to_file(stack_arrays(images).replaced(companions=stack_arrays(many)), tmp_path / "many.ome.tif", CONFIG)

    with_alpha = tifffile.imread(tmp_path / "alpha.tif")
    np.testing.assert_array_equal(with_alpha[..., :3], expected.fused)
    is_pure = expected.source_index == 0
    assert set(np.unique(with_alpha[..., 3][is_pure])) <= set(range(50, 101))
    channels = tifffile.imread(tmp_path / "many.ome.tif")
    assert sorted(channels.shape) == [5, 130, 150]


def test_one_image_is_refused(images):
    with pytest.raises(InvalidImageError, match="1 image was given; at least 2"):
        Pipeline.prepare(stack_arrays(images[:1]), CONFIG)


def test_a_prepared_run_says_what_it_takes_and_a_zarr_is_its_own_space(images, tmp_path):
    runs = [
        FileRun.prepare(stack_arrays(images), Outputs(image=tmp_path / name, maps=tmp_path / "maps"), CONFIG, workers=2)
        for name in ("f.tif", "f.ome.zarr")
    ]

    assert [(len(run.pipeline.plan), run.pipeline.tiles_at_once) for run in runs] == [(9, 2)] * 2
    assert [run.output_bytes for run in runs] == [130 * 150 * (3 + 2 + 2 + 2 + 4)] * 2
    assert [run.job_bytes for run in runs] == [130 * 150 * 13, 130 * 150 * 10]
    assert runs[0].transcoded_bytes == 0
    assert runs[0].pipeline.tile_bytes > 0


def test_too_little_memory_is_refused(images, tmp_path):
    with pytest.raises(InvalidConfigError, match=r"the memory budget is 0\.001 MB"):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, memory_bytes=1000)
    assert list(tmp_path.iterdir()) == []


def test_nan_in_the_middle_of_a_run_is_named(tmp_path):
    floats = [np.random.default_rng(number).random((130, 600)) for number in range(2)]

    def read(number, window):
        samples = floats[number][window.slices].copy()
        if window.left > 0 and number == 1:
            samples[0, 0] = np.nan
        return samples

    with pytest.raises(InvalidImageError, match="image 2 holds NaN"):
        fuse_to_file(stack_arrays(floats).replaced(read=read), tmp_path / "f.tif", CONFIG, workers=1)


def test_a_run_is_identified_by_settings_and_samples_before_and_after(images, tmp_path):
    report = fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG)

    assert Pipeline.prepare(stack_arrays(images), CONFIG).identify(report.focus_range) == report.identity
    assert Pipeline.prepare(stack_arrays(images[::-1]), CONFIG).identify(report.focus_range) != report.identity
    assert Pipeline.prepare(stack_arrays(images), CONFIG.replaced({"smoothness": 0.5})).identify(report.focus_range) != report.identity


def test_heights_are_those_of_the_positions_and_the_same_with_one_or_many_workers(images, tmp_path):
    result = fuse(images, CONFIG, with_position=True)
    expected = height_map(result.position, z_step=2.0, confidence=result.confidence).height
    for workers in (1, 3):
        request = HeightRequest(target=tmp_path / f"h{workers}.ome.tif", z_step=2.0, unit="mm")
        report = fuse_to_file(stack_arrays(images), tmp_path / f"f{workers}.tif", CONFIG, height=request, workers=workers)
        np.testing.assert_array_equal(tifffile.imread(request.target), expected)
        assert report.outputs[1:] == (request.target, request.confidence_target)

    assert (tmp_path / "h1.ome.tif").read_bytes() == (tmp_path / "h3.ome.tif").read_bytes()


def test_tiles_with_maps_are_not_taken_for_tiles_with_heights_of_as_many_bytes(images, tmp_path):
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(images, fail_after=12), tmp_path / "f.tif", CONFIG, maps=tmp_path / "maps", workers=1)
    request = HeightRequest(target=tmp_path / "h.tif", z_step=1.0)

    with pytest.raises(OutputError, match="other images, settings or another version"):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, height=request, resume=True)


def test_a_height_map_under_the_name_of_the_picture_is_refused(images, tmp_path):
    with pytest.raises(OutputError, match="a name of its own is needed for each: choose others"):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, height=HeightRequest(target=tmp_path / "f.tif", z_step=1.0))


def stored(path):
    """Samples of the full level of an OME-Zarr, channels last."""
    planes = zarr.open_array(path / "0", mode="r")[...]
    return np.moveaxis(planes, 0, -1) if planes.ndim == 3 else planes


def test_a_zarr_holds_what_fuse_returns_in_chunks_of_ours(images, expected, tmp_path):
    fuse_to_file(stack_arrays(images), tmp_path / "fused.ome.zarr", CONFIG, maps=tmp_path / "maps")

    np.testing.assert_array_equal(stored(tmp_path / "fused.ome.zarr"), expected.fused)
    assert zarr.open_array(tmp_path / "fused.ome.zarr" / "0", mode="r").chunks == (3, 64, 64)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "maps" / "source_index.tif"), expected.source_index)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fused.ome.zarr", "maps"]


def test_the_chunks_of_a_zarr_are_written_once_by_their_tiles_and_copied_nowhere(images, tmp_path):
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(images, fail_after=12), tmp_path / "f.ome.zarr", CONFIG, workers=1)

    (store,) = (tmp_path / "f.ome.zarr.qmcif-job").glob("image-*.zarr")
    tiles = list((tmp_path / "f.ome.zarr.qmcif-job").glob("tile-*"))
    chunks = {path.relative_to(store).as_posix(): path.stat().st_mtime_ns for path in (store / "0" / "c").rglob("*") if path.is_file()}
    assert len(chunks) == len(tiles) > 0
    assert all(path.stat().st_size < 300 for path in tiles)  # a receipt
    fuse_to_file(stack_arrays(images), tmp_path / "f.ome.zarr", CONFIG, resume=True)
    assert {name: (tmp_path / "f.ome.zarr" / name).stat().st_mtime_ns for name in chunks} == chunks


def test_a_zarr_is_replaced_when_asked_and_stays_otherwise(images, expected, tmp_path):
    target = tmp_path / "f.ome.zarr"
    fuse_to_file(stack_arrays(images[::-1]), target, CONFIG)
    before = digests(target)
    with pytest.raises(OutputError, match="exists already"):
        fuse_to_file(stack_arrays(images), target, CONFIG)
    assert digests(target) == before
    fuse_to_file(stack_arrays(images), target, CONFIG, overwrite=True)

    np.testing.assert_array_equal(stored(target), expected.fused)
    assert [path.name for path in tmp_path.iterdir()] == ["f.ome.zarr"]


def test_a_zarr_that_cannot_be_placed_waits_for_the_next_run(images, expected, tmp_path, monkeypatch):
    target = tmp_path / "f.ome.zarr"
    fuse_to_file(stack_arrays(images[::-1]), target, CONFIG)
    before = digests(target)

    def interrupt(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr("qmcif_engine.io.output.placement.sync_folder", interrupt)  # before what was done is settled
    with pytest.raises(KeyboardInterrupt):
        fuse_to_file(stack_arrays(images), target, CONFIG, overwrite=True)
    monkeypatch.undo()
    assert digests(target) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.ome.zarr", "f.ome.zarr.qmcif-job"]

    report = fuse_to_file(stack_arrays(images), target, CONFIG, overwrite=True, resume=True)
    assert report.n_resumed == report.n_tiles
    np.testing.assert_array_equal(stored(target), expected.fused)


def test_tiles_whose_store_is_gone_are_computed_again(images, expected, tmp_path):
    target = tmp_path / "f.ome.zarr"
    with pytest.raises(OSError, match="lost the disk"):
        fuse_to_file(logged_stack(images, fail_after=12), target, CONFIG, workers=1)
    (store,) = (tmp_path / "f.ome.zarr.qmcif-job").glob("image-*.zarr")
    store.rename(tmp_path / "elsewhere")

    assert fuse_to_file(stack_arrays(images), target, CONFIG, resume=True).n_resumed == 0
    np.testing.assert_array_equal(stored(target), expected.fused)


def test_alpha_further_channels_and_heights_go_with_a_zarr(images, expected, tmp_path):
    def heights(name):
        return HeightRequest(target=tmp_path / f"{name}.tif", z_step=2.0)

    plain = stack_arrays(images)
    fuse_to_file(plain, tmp_path / "plain.ome.tif", CONFIG, height=heights("plain"))
    stack = plain.replaced(alpha=stack_arrays([np.full((130, 150), 50 * (number + 1), np.uint8) for number in range(2)]))
    for suffix in ("ome.zarr", "tif"):
        fuse_to_file(stack, tmp_path / f"alpha.{suffix}", CONFIG, height=heights(f"alpha_{suffix}"))
    stack = plain.replaced(companions=stack_arrays([np.dstack([image, image[..., :2]]) for image in images]))
    for suffix in ("ome.zarr", "ome.tif"):
        fuse_to_file(stack, tmp_path / f"many.{suffix}", CONFIG, height=heights(f"many_{suffix}"))

    np.testing.assert_array_equal(stored(tmp_path / "alpha.ome.zarr"), tifffile.imread(tmp_path / "alpha.tif"))
    np.testing.assert_array_equal(stored(tmp_path / "many.ome.zarr"), np.moveaxis(tifffile.imread(tmp_path / "many.ome.tif"), 0, -1))
    np.testing.assert_array_equal(stored(tmp_path / "alpha.ome.zarr")[..., :3], expected.fused)
    found = [
        tifffile.imread(tmp_path / f"{name}.tif") for name in ("plain", "alpha_ome.zarr", "alpha_tif", "many_ome.zarr", "many_ome.tif")
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_cancelling_while_smaller_levels_are_made_loses_no_tile(tmp_path):
    images = make_focus_stack(shape=(700, 600), n_images=2, seed=4).images
    config = CONFIG.replaced({"tile_px": 256})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    seen = []
    fuse_to_file(stack_arrays(images), whole / "f.ome.zarr", config)
    with pytest.raises(Cancelled):
        fuse_to_file(
            stack_arrays(images),
            parts / "f.ome.zarr",
            config,
            on_progress=seen.append,
            is_cancelled=lambda: bool(seen) and len(seen) == seen[0].total,
        )
    assert fuse_to_file(stack_arrays(images), parts / "f.ome.zarr", config, resume=True).n_resumed == 9

    assert digests(parts) == digests(whole)


class Killed(BaseException):
    """Stands for a kill: nothing of what follows in the process happens."""


@pytest.fixture
def kill_at_move(monkeypatch):
    """Make the process end, without cleaning up, before the n-th output is moved into place."""

    def kill(n_moves, run):
        carry_out, moved = Move.carry_out, []

        def carry(self, **options):
            if len(moved) == n_moves:
                raise Killed
            moved.append(carry_out(self, **options))

        with monkeypatch.context() as patched:
            patched.setattr(Move, "carry_out", carry)
            patched.setattr(Move, "take_back", lambda self: None)
            patched.setattr(Journal, "drop", lambda self: None)
            patched.setattr(Job, "abort", Job.release)  # the lock of a process that has ended holds nothing
            with pytest.raises(Killed):
                run()

    return kill


@pytest.mark.parametrize("name", ["f.tif", "f.ome.zarr"])
@pytest.mark.parametrize("n_moves", [0, 1, 3, 4])
@pytest.mark.parametrize("is_resumed", [False, True])
def test_outputs_belong_together_after_a_kill_between_two_of_them(images, tmp_path, kill_at_move, name, n_moves, is_resumed):
    old, new, place = (tmp_path / part for part in ("old", "new", "place"))
    for folder, given in ((old, images[::-1]), (new, images)):
        folder.mkdir()
        fuse_to_file(stack_arrays(given), folder / name, CONFIG, maps=folder / "maps")
    shutil.copytree(old, place)
    kill_at_move(n_moves, lambda: fuse_to_file(stack_arrays(images), place / name, CONFIG, maps=place / "maps", overwrite=True))

    if is_resumed:
        assert fuse_to_file(stack_arrays(images), place / name, CONFIG, maps=place / "maps", resume=True).n_resumed == 9
        assert digests(place) == digests(new)
        return
    with pytest.raises(OutputError, match="exists already"):
        fuse_to_file(stack_arrays(images), place / name, CONFIG, maps=place / "maps")
    shutil.rmtree(place / f"{name}.qmcif-job")
    assert digests(place) == digests(old)


def test_new_outputs_are_taken_back_after_a_kill_between_two_of_them_and_resumed(images, tmp_path, kill_at_move):
    kill_at_move(2, lambda: fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, maps=tmp_path / "maps"))
    assert len(list((tmp_path / "maps").glob("*.tif"))) == 2

    with pytest.raises(OutputError, match=r"an unfinished run is in .*--resume"):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, maps=tmp_path / "maps")
    assert list((tmp_path / "maps").iterdir()) == []
    fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, maps=tmp_path / "maps", resume=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.tif", "maps"]
    assert len(list((tmp_path / "maps").iterdir())) == 4


@pytest.mark.parametrize("name", ["f.tif", "f.ome.tif", "f.png", "f.jpg", "f.ome.zarr"])
def test_resuming_a_run_whose_outputs_are_all_in_place_leaves_them_and_reads_nothing_twice(images, tmp_path, name):
    request = HeightRequest(target=tmp_path / "h.ome.tif", z_step=2.0, unit="mm")
    first = fuse_to_file(stack_arrays(images), tmp_path / name, CONFIG, height=request)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}

    again = fuse_to_file(stack_arrays(images), tmp_path / name, CONFIG, height=request, resume=True)
    assert (again.identity, again.n_resumed, again.pixels_by_image) == (first.identity, 9, ())
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    with pytest.raises(OutputError, match="exists already"):
        fuse_to_file(stack_arrays(images[::-1]), tmp_path / name, CONFIG, height=request, resume=True)
    with pytest.raises(OutputError, match=r"h\.ome\.tif' exists already"):
        fuse_to_file(stack_arrays(images), tmp_path / name, CONFIG, height=replace(request, z_step=3.0), resume=True)


def test_two_runs_never_mix_their_tiles(images, expected, tmp_path):
    """The second begins while the first is at its third tile, in whatever way it is told to."""
    refused = []

    def start_another(progress):
        if progress.done == 7:
            for options in ({"resume": True}, {"overwrite": True}, {}):
                with pytest.raises(OutputError, match="a run is going on in") as caught:
                    fuse_to_file(stack_arrays(images[::-1]), tmp_path / "f.tif", CONFIG, **options)
                refused.append(caught)

    fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, workers=1, on_progress=start_another)
    assert len(refused) == 3
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "f.tif"), expected.fused)


def test_a_tile_of_another_run_is_compared_before_it_is_used(images, tmp_path, monkeypatch):
    """A run that lost the folder, as one that slept does, writes a tile after all."""
    compute = TileTask.__call__
    reversed_task = make_task(stack_arrays(images[::-1]))
    write = Job.write

    def write_late(self, part, tile, result):
        write(self, part, tile, result)
        if tile.number == 0:
            late = copy.deepcopy(self)
            late._lock.session = "0123456789abcdef"
            write(late, part, tile, compute(reversed_task, tile))

    monkeypatch.setattr(Job, "write", write_late)
    with pytest.raises(OutputError, match="other images, settings or another version"):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, workers=1)


def test_a_run_that_lost_its_folder_to_another_leaves_that_one_alone(images, tmp_path):
    taken = []

    def take_over(progress):
        if progress.done == 4:
            lock = RunLock(tmp_path / "f.tif.qmcif-job" / "lock")
            lock.path.write_bytes(lock.describe())
            taken.append(lock)

    with pytest.raises(ExecutionError, match="was taken over by process"):
        fuse_to_file(stack_arrays(images), tmp_path / "f.tif", CONFIG, workers=1, on_progress=take_over)
    assert taken[0].is_held()


def test_a_name_without_room_for_that_of_the_job_is_refused_at_once(images, tmp_path):
    stack = logged_stack(images)
    with pytest.raises(OutputError, match="cannot be written"):
        fuse_to_file(stack, tmp_path / f"{'n' * 246}.tif", CONFIG)
    assert stack.read.places == []
