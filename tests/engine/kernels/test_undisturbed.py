"""Nothing disturbs a stretch of work, and nothing is forgotten after it."""

import gc
import signal
import threading

import pytest

from qmcif_engine.kernels.undisturbed import undisturbed


def test_a_request_to_end_waits_for_the_end_of_the_block():
    done = []

    def work():
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append(True)

    with pytest.raises(KeyboardInterrupt):
        work()

    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with undisturbed():
            signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_garbage_is_collected_again_after_the_block_and_not_within():
    with undisturbed():
        assert not gc.isenabled()

    assert gc.isenabled()


def test_an_error_passes():
    with pytest.raises(ZeroDivisionError), undisturbed():
        raise ZeroDivisionError

    assert gc.isenabled()


def test_other_threads_leave_signals_alone():
    known = []

    def look():
        with undisturbed():
            known.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert known == [signal.getsignal(signal.SIGINT)]
