"""Decoded images that are kept: once decoded, bounded in memory, removed afterwards, shared by processes."""

from __future__ import annotations

import gc
import math
import multiprocessing
import os
import pickle
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from qmcif_engine.errors import OutputError
from qmcif_engine.io.input.frame_source import Copying, FramePosition, FrameSource, SourceDescription
from qmcif_engine.io.input.segments import SegmentCache
from qmcif_engine.stack.window import Window

PLACES = [FramePosition(0, number) for number in range(3)]
WINDOW = Window(3, 5, 20, 30)
SHAPE = (40, 50, 3)


def picture(value=0):
    return (np.arange(math.prod(SHAPE)).reshape(SHAPE) + value).astype(np.uint16)


class Pictures(FrameSource):
    """Three frames that can only be decoded as a whole, counted."""

    copying = Copying.NEEDED

    def __init__(self, *, may_decode=True):
        self.description = SourceDescription(
            names=("a", "b", "c"), height=SHAPE[0], width=SHAPE[1], n_channels=3, dtype=np.dtype(np.uint16), paths=(Path("/some/file"),)
        )
        self.n_decoded, self.may_decode = 0, may_decode

    def decode(self, position):
        assert self.may_decode
        self.n_decoded += 1
        time.sleep(0.01)
        return picture(position.number)

    def read(self, position, window, channels):
        raise AssertionError


def make_cache(source, folder, *, memory_bytes=0):
    cache = SegmentCache(scratch_folder=folder)
    return cache, cache.expect(source, PLACES, memory_bytes=memory_bytes)


def check(cache, source, numbers=range(3)):
    for number in numbers:
        expected = picture(number)[WINDOW.slices]
        np.testing.assert_array_equal(cache.read(source, PLACES[number], WINDOW, range(3)), expected)
        np.testing.assert_array_equal(cache.read(source, PLACES[number], WINDOW, [2, 0]), expected[..., [2, 0]])


@pytest.mark.parametrize(("share", "n_files"), [(1, 0), (0.99, 3)])
def test_every_image_is_decoded_once_into_memory_where_all_fit_and_else_to_disk(tmp_path, share, n_files):
    source = Pictures()
    cache, scratch_bytes = make_cache(source, tmp_path, memory_bytes=int(share * 3 * picture().nbytes))

    check(cache, source)
    check(cache, source)

    assert source.n_decoded == 3
    assert scratch_bytes == n_files * picture().nbytes
    assert len(list(tmp_path.glob("*/*.npy"))) == n_files
    cache.close()


def test_what_was_read_stays_valid_after_closing_and_reading_again_makes_a_new_folder(tmp_path):
    source = Pictures()
    cache, _ = make_cache(source, tmp_path)
    samples = cache.read(source, PLACES[1], WINDOW, range(3))
    assert len(list(tmp_path.iterdir())) == 1

    cache.close()

    assert list(tmp_path.iterdir()) == []
    assert not isinstance(samples, np.memmap)
    np.testing.assert_array_equal(samples, picture(1)[WINDOW.slices])
    check(cache, source)
    cache.close()


def test_forgetting_the_cache_removes_its_folder(tmp_path):
    source = Pictures()
    cache, _ = make_cache(source, tmp_path)
    check(cache, source)
    del cache
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_leaves_the_folder_of_its_parent_alone(tmp_path, monkeypatch):
    source = Pictures()
    cache, _ = make_cache(source, tmp_path)
    check(cache, source)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    cache.close()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_copy_uses_the_same_folder_while_it_exists(tmp_path):
    source = Pictures()
    cache, _ = make_cache(source, tmp_path)
    check(cache, source)
    copy = pickle.loads(pickle.dumps(cache))
    check(copy, Pictures(may_decode=False))
    copy.close()
    assert len(list(tmp_path.iterdir())) == 1  # it is not its own
    cache.close()
    again = Pictures()
    check(copy, again)
    assert again.n_decoded == 3
    copy.close()
    assert list(tmp_path.iterdir()) == []


def test_a_started_process_finds_what_is_decoded(tmp_path):
    source = Pictures()
    cache, _ = make_cache(source, tmp_path)
    check(cache, source)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        sent = pickle.dumps(cache)
        found = pool.apply(_read_elsewhere, (sent,))
    np.testing.assert_array_equal(found, picture(1)[WINDOW.slices])
    cache.close()


def _read_elsewhere(sent):
    return pickle.loads(sent).read(Pictures(may_decode=False), PLACES[1], WINDOW, range(3))


@pytest.mark.parametrize("memory_bytes", [0, 10**9])
def test_threads_decode_an_image_once(tmp_path, memory_bytes):
    source = Pictures()
    cache, _ = make_cache(source, tmp_path, memory_bytes=memory_bytes)
    threads = [threading.Thread(target=check, args=(cache, source, [1])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.n_decoded == 1
    cache.close()


class Turned(Pictures):
    """One large image that is stored turned."""

    def __init__(self):
        height, width = 3000, 2000
        self.turned = np.zeros((width, height, 3), np.uint8).swapaxes(0, 1)
        self.description = SourceDescription(
            names=("a",), height=height, width=width, n_channels=3, dtype=np.dtype(np.uint8), paths=(Path("/some/file"),)
        )

    def decode(self, position):
        del position
        return self.turned


def prepare_copying_a_turned_image(folder):
    source = Turned()
    cache = SegmentCache(scratch_folder=folder)
    cache.expect(source, PLACES[:1], memory_bytes=0)
    return lambda: cache.read(source, PLACES[0], WINDOW, range(3))


def test_copying_a_turned_image_takes_no_second_one_of_it(tmp_path, peak_of):
    assert peak_of(prepare_copying_a_turned_image, tmp_path) < 3000 * 2000 * 3 / 4


def test_folder_that_does_not_exist_is_refused(tmp_path):
    cache, _ = make_cache(Pictures(), tmp_path / "none")
    with pytest.raises(
        OutputError, match=r"decoded images cannot be stored in '.*none' \(No such file.*free space there is needed; name ano"
    ):
        check(cache, Pictures())


def test_a_full_disk_is_an_error_and_leaves_nothing_behind(tmp_path, monkeypatch):
    cache, _ = make_cache(Pictures(), tmp_path)

    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fail)
    with pytest.raises(OutputError, match=r"decoded images cannot be stored in '.*' \(No space left on device\)"):
        check(cache, Pictures())
    assert [file for folder in tmp_path.iterdir() for file in folder.iterdir()] == []
    cache.close()
