"""Files that stay open and segments that are held: few at a time, read or decoded once, given up when others need the room."""

from __future__ import annotations

import os
import pickle
import threading
from contextlib import suppress

import numpy as np
import pytest

from qmcif_engine.io.input import segments
from qmcif_engine.io.input.segments import OpenFiles, SegmentCache


def written(folder, n_files):
    paths = [folder / f"{number}.bin" for number in range(n_files)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * 5 + b"end")
    return paths


@pytest.mark.parametrize("reads_anywhere", [True, False])
def test_bytes_are_read_from_any_place_and_fewer_where_the_file_ends(tmp_path, monkeypatch, reads_anywhere):
    monkeypatch.setattr(segments, "READS_ANYWHERE", reads_anywhere)
    (path,) = written(tmp_path, 1)
    file = OpenFiles().open(path)
    assert [file.read(5, 3), file.read(0, 2), file.read(7, 9), file.read(8, 1), file.read(3, 0)] == [b"end", b"\0\0", b"d", b"", b""]


def test_what_the_system_returns_in_pieces_is_put_together(tmp_path, monkeypatch):
    (path,) = written(tmp_path, 1)
    whole_read = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, n_bytes, start: whole_read(descriptor, min(n_bytes, 3), start))
    assert OpenFiles().open(path).read(0, 8) == bytes(5) + b"end"


def test_a_file_is_opened_once_while_it_is_among_those_used_last(tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "MOST_OPEN_FILES", 2)
    first, second, third = written(tmp_path, 3)
    files = OpenFiles()
    held = files.open(first)
    files.open(second)
    assert files.open(first) is held
    files.open(third)  # takes the place of the second
    assert files.open(first) is held
    files.open(second)
    files.open(third)  # both together take that of the first
    assert files.open(first) is not held
    assert held.read(5, 3) == b"end"  # whoever holds it can go on reading


def test_files_are_closed_when_nobody_holds_them(tmp_path, monkeypatch):
    opening, closing, still_open = os.open, os.close, set()
    monkeypatch.setattr(os, "open", lambda *given: still_open.add(descriptor := opening(*given)) or descriptor)
    monkeypatch.setattr(os, "close", lambda descriptor: (closing(descriptor), still_open.discard(descriptor)))
    files = OpenFiles()
    for path in written(tmp_path, 4):
        files.open(path)
    assert len(still_open) == 4
    del files
    assert not still_open


def test_a_missing_file_is_told_by_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        OpenFiles().open(tmp_path / "none.bin")


def counted(calls, key, n_bytes=10):
    def decode():
        calls.append(key)
        return np.full(n_bytes, key, np.uint8)

    return decode


class NotHeldError(Exception):
    pass


def refuse():
    raise NotHeldError


def held(cache, keys):
    """The keys whose segments are returned without being decoded; what is not held is not decoded either."""
    found = []
    for key in keys:
        with suppress(NotHeldError):
            cache.fetch(key, refuse)
            found.append(key)
    return found


def test_a_segment_is_decoded_once_while_there_is_room():
    cache, calls = SegmentCache(100), []
    for _ in range(3):
        for key in range(5):
            assert cache.fetch(key, counted(calls, key))[0] == key
    assert calls == [0, 1, 2, 3, 4]
    assert held(cache, range(10)) == [0, 1, 2, 3, 4]


def test_the_segment_unused_for_longest_makes_room():
    cache, calls = SegmentCache(20), []
    for key in (0, 1, 0, 2, 0, 1):
        cache.fetch(key, counted(calls, key))
    assert calls == [0, 1, 2, 1]
    assert held(cache, range(10)) == [0, 1]


def test_a_segment_larger_than_the_cache_is_returned_but_not_held():
    cache, calls = SegmentCache(5), []
    for _ in range(2):
        assert len(cache.fetch(0, counted(calls, 0))) == 10
    assert calls == [0, 0]


def test_a_copy_starts_empty_with_the_same_limit():
    cache = SegmentCache(100)
    cache.fetch(0, counted([], 0))
    copy = pickle.loads(pickle.dumps(cache))
    assert copy.limit_bytes == 100
    assert held(copy, [0]) == []


def test_threads_that_share_a_cache_never_exceed_its_limit():
    cache, wrong = SegmentCache(50), []

    def work(seed):
        keys = np.random.default_rng(seed).integers(0, 20, 300).tolist()
        wrong.extend(key for key in keys if cache.fetch(key, counted([], key))[0] != key)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(held(cache, range(20))) <= 5
