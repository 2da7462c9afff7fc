from __future__ import annotations

import pickle
import threading
from contextlib import suppress

import numpy as np

from qmcif_engine.io.input.segments import SegmentCache


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
