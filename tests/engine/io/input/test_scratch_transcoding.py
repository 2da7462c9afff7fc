from __future__ import annotations

import gc
import math
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

from qmcif_engine.errors import OutputError
from qmcif_engine.io.input.scratch_transcoding import ScratchStore
from qmcif_engine.stack.window import Window

KEY = ("/some/file.png", 0)
WINDOW = Window(3, 5, 20, 30)


def picture(value: int = 0) -> np.ndarray:
    return (np.arange(40 * 50 * 3).reshape(40, 50, 3) + value).astype(np.uint16)


def fail_to_decode():
    raise AssertionError


def on_disk(folder) -> ScratchStore:
    store = ScratchStore(folder)
    assert store.expect(picture().nbytes, memory_bytes=0) == picture().nbytes
    return store


def test_small_stacks_stay_in_memory(tmp_path):
    store = ScratchStore(tmp_path)
    assert store.expect(picture().nbytes, memory_bytes=picture().nbytes) == 0
    np.testing.assert_array_equal(store.read(KEY, WINDOW, decode=picture), picture()[WINDOW.slices])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("memory_bytes", [0, 2**30])
def test_every_image_is_decoded_once(tmp_path, memory_bytes):
    store, calls = ScratchStore(tmp_path), []
    store.expect(100, memory_bytes=memory_bytes)

    def decode():
        calls.append(1)
        return picture()

    for _ in range(3):
        np.testing.assert_array_equal(store.read(KEY, WINDOW, decode=decode), picture()[WINDOW.slices])
    assert len(calls) == 1
    store.close()


def test_images_of_one_file_are_kept_apart(tmp_path):
    store = on_disk(tmp_path)
    for number in range(3):
        store.hold(("/a", number), lambda number=number: picture(number))
    for number in range(3):
        np.testing.assert_array_equal(store.read(("/a", number), WINDOW, decode=picture), picture(number)[WINDOW.slices])
    store.close()


def test_what_was_read_stays_valid_after_closing(tmp_path):
    store = on_disk(tmp_path)
    samples = store.read(KEY, WINDOW, decode=picture)
    store.close()
    assert not isinstance(samples, np.memmap)
    np.testing.assert_array_equal(samples, picture()[WINDOW.slices])


def test_closing_removes_the_folder_and_reading_makes_a_new_one(tmp_path):
    store = on_disk(tmp_path)
    store.hold(KEY, picture)
    assert len(list(tmp_path.iterdir())) == 1
    store.close()
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(store.read(KEY, WINDOW, decode=picture), picture()[WINDOW.slices])
    store.close()


def test_forgetting_the_store_removes_its_folder(tmp_path):
    store = on_disk(tmp_path)
    store.hold(KEY, picture)
    del store
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_leaves_the_folder_of_its_parent_alone(tmp_path, monkeypatch):
    store = on_disk(tmp_path)
    store.hold(KEY, picture)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    store.close()
    assert len(list(tmp_path.iterdir())) == 1


def test_a_copy_uses_the_same_folder_while_it_exists(tmp_path):
    store = on_disk(tmp_path)
    store.hold(KEY, picture)
    copy = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(copy.read(KEY, WINDOW, decode=lambda: picture(7)), picture()[WINDOW.slices])
    copy.close()
    assert len(list(tmp_path.iterdir())) == 1
    store.close()
    np.testing.assert_array_equal(copy.read(KEY, WINDOW, decode=lambda: picture(7)), picture(7)[WINDOW.slices])
    copy.close()
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_a_store_in_memory_decodes_itself(tmp_path):
    store = ScratchStore(tmp_path)
    store.expect(1, memory_bytes=10)
    store.hold(KEY, picture)
    copy = pickle.loads(pickle.dumps(store))
    np.testing.assert_array_equal(copy.read(KEY, WINDOW, decode=lambda: picture(7)), picture(7)[WINDOW.slices])
    assert list(tmp_path.iterdir()) == []


def test_a_started_process_finds_what_is_decoded(tmp_path):
    store = on_disk(tmp_path)
    store.hold(KEY, picture)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(store.read, (KEY, WINDOW), {"decode": fail_to_decode})
    np.testing.assert_array_equal(found, picture()[WINDOW.slices])
    store.close()


def test_threads_decode_an_image_once(tmp_path):
    store, calls = on_disk(tmp_path), []

    def decode():
        calls.append(1)
        return picture()

    threads = [threading.Thread(target=store.read, args=(KEY, WINDOW), kwargs={"decode": decode}) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    store.close()


def prepare_laying_down_a_turned_image(folder, shape):
    turned = np.zeros(shape, np.uint8).swapaxes(0, 1)
    store = on_disk(folder)
    return lambda: store.hold(KEY, lambda: turned)


def test_laying_down_a_turned_image_takes_no_second_copy_of_it(tmp_path, peak_of):
    shape = (2000, 3000, 3)
    assert peak_of(prepare_laying_down_a_turned_image, tmp_path, shape) < math.prod(shape) / 4


def test_folder_that_does_not_exist_is_refused(tmp_path):
    store = ScratchStore(tmp_path / "none")
    store.expect(10, memory_bytes=0)
    with pytest.raises(
        OutputError, match=r"decoded images cannot be stored in '.*none' \(No such file.*free space there is needed; name ano"
    ):
        store.read(KEY, WINDOW, decode=picture)


def test_full_disk_is_told_and_leaves_nothing_behind(tmp_path, monkeypatch):
    store = on_disk(tmp_path)

    def fail(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fail)
    with pytest.raises(OutputError, match=r"decoded images cannot be stored in '.*' \(No space left on device\)"):
        store.read(KEY, WINDOW, decode=picture)
    assert [file for folder in tmp_path.iterdir() for file in folder.iterdir()] == []
    store.close()
