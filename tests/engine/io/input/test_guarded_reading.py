"""Libraries that cannot be bounded beforehand run in a process that is ended where they hang, fill memory or crash."""

from __future__ import annotations

import os
import signal
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from qmcif_engine import open_stack
from qmcif_engine.errors import ImageFileError, InvalidImageError
from qmcif_engine.io.input import guarded_reading
from qmcif_engine.io.input.guarded_reading import read_apart
from qmcif_engine.io.input.reading_process import ReadContent
from qmcif_engine.stack.window import Window

ATTACK = Path(__file__).parents[4] / "tools" / "attack"
needs_limits = pytest.mark.skipif(sys.platform != "linux", reason="limits of processes, as on Linux")


@pytest.fixture(autouse=True)
def own_module(monkeypatch):
    """The process finds the functions of this file."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setattr(guarded_reading, "_of_process", {})
    for function in (echo, compute_forever, take_everything, crash, refuse, shout):
        monkeypatch.setattr(function, "__module__", Path(__file__).stem)
    yield
    for reader in guarded_reading._of_process.values():
        reader.end()


def echo(path, **values):
    return ReadContent({"path": str(path), "pid": os.getpid(), **values}, [np.arange(6, dtype=np.uint16).reshape(2, 3)[:, ::-1]])


def compute_forever(path):
    while True:
        del path
        path = 1


def take_everything(path):
    from qmcif_engine.io.input.image_file import translate_failures

    return translate_failures(lambda _: ReadContent({}, [np.ones(2**34, np.uint8)]), path)


def crash(path):
    del path
    os.kill(os.getpid(), signal.SIGSEGV)


def refuse(path):
    msg = f"{path.name} is refused"
    raise InvalidImageError(msg)


def shout(path):
    os.write(1, b"a library prints what it thinks\n")
    return ReadContent({"path": str(path)}, [])


def test_values_and_samples_come_back(tmp_path):
    values, (samples,) = read_apart(echo, tmp_path / "a\ud800\n", n_bytes=1, text="µ")
    assert values == {"path": str(tmp_path / "a\ud800\n"), "pid": values["pid"], "text": "µ"}
    assert values["pid"] != os.getpid()
    np.testing.assert_array_equal(samples, [[2, 1, 0], [5, 4, 3]])


def test_one_process_answers_all_and_errors_keep_their_class(tmp_path):
    first = read_apart(echo, tmp_path, n_bytes=1).values["pid"]
    with pytest.raises(InvalidImageError, match="file is refused"):
        read_apart(refuse, tmp_path / "file", n_bytes=1)
    assert read_apart(shout, tmp_path, n_bytes=1).values == {"path": str(tmp_path)}
    assert read_apart(echo, tmp_path, n_bytes=1).values["pid"] == first


@needs_limits
def test_what_hangs_fills_memory_or_crashes_is_refused_and_the_next_file_is_read(tmp_path):
    with pytest.raises(ImageFileError, match=r"a' is truncated or corrupt .reading it took far longer than its size allows"):
        read_apart(compute_forever, tmp_path / "a", n_bytes=0)
    with pytest.raises(ImageFileError, match="b' does not fit into memory"):
        read_apart(take_everything, tmp_path / "b", n_bytes=0)
    with pytest.raises(ImageFileError, match=r"c' is truncated or corrupt .the library that reads it crashed with -11"):
        read_apart(crash, tmp_path / "c", n_bytes=0)
    assert read_apart(echo, tmp_path, n_bytes=1).arrays[0].shape == (2, 3)


@pytest.mark.parametrize(
    "answer",
    [
        b"[]\n",
        b"7\n",
        b"{}\n",
        b'{"error": "annotations", "message": ""}\n',
        b'{"error": 3, "message": ""}\n',
        b'{"error": "ImageFileError"}\n',
        b'{"values": {}, "arrays": [["O", [1]]]}\n',
        b'{"values": {}, "arrays": [["u1", [-1]]]}\n',
        b'{"values": {}, "arrays": [["u1", [1099511627776, 1024]]]}\n',
        b'{"values": {}, "arrays": [["u1", [4]]]}\nab',
    ],
)
def test_an_answer_that_no_library_of_ours_gives_refuses_the_file(tmp_path, monkeypatch, answer):
    program = f"import sys; sys.stdin.readline(); sys.stdout.buffer.write({answer!r})"
    monkeypatch.setattr(guarded_reading, "_START", program)

    with pytest.raises(ImageFileError, match="the library that reads it crashed"):
        read_apart(echo, tmp_path / "a", n_bytes=1)


def test_an_interrupted_request_leaves_no_answer_for_the_next(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(guarded_reading, "_receive", interrupt)
        with pytest.raises(KeyboardInterrupt):
            read_apart(echo, tmp_path, n_bytes=1, number=1)
    assert read_apart(echo, tmp_path, n_bytes=1, number=2).values["number"] == 2


@pytest.fixture
def nd2_parts(monkeypatch, tmp_path):
    """What writes ND2 files, and a sound one."""
    pytest.importorskip("nd2", reason="the extra microscopes is not installed")
    monkeypatch.syspath_prepend(str(ATTACK))
    import microscope_seeds

    return microscope_seeds, tmp_path / microscope_seeds.write_nd2(tmp_path)[0]


def replace_attributes(parts, path, content):
    """Put another chunk in the place of that of the attributes."""
    whole = path.read_bytes()
    place = whole.index(b"ImageAttributesLV!") - 16
    made = parts._chunk(b"ImageAttributesLV!", content, name_bytes=4072)
    end = whole.rindex(parts._FILE_MAP) - 16
    moved = len(whole[:end])
    name = b"ImageAttributesLV!"
    places = whole[end + 48 : -40].replace(name + struct.pack("<Q", place), name + struct.pack("<Q", moved))
    tail = parts._CHUNK_MAP + struct.pack("<Q", moved + len(made))
    path.write_bytes(whole[:end] + made + parts._chunk(parts._FILE_MAP, places + tail, name_bytes=32))


def test_nd2_that_the_attack_writes_is_sound(nd2_parts):
    assert open_stack(nd2_parts[1]).read(1, Window(0, 0, 24, 32)).any()


@needs_limits
def test_nd2_with_a_text_that_never_ends_is_refused(nd2_parts):
    """The library puts texts together two bytes at a time, and copies all of them each time."""
    parts, path = nd2_parts
    replace_attributes(parts, path, parts._head(8, "a") + b"xy" * 2_000_000)
    with pytest.raises(ImageFileError, match="took far longer than its size allows"):
        open_stack(path)


@needs_limits
def test_nd2_whose_metadata_unpack_to_gigabytes_is_refused(nd2_parts):
    parts, path = nd2_parts
    packer = zlib.compressobj(1)
    packed = b"".join([*(packer.compress(bytes(2**24)) for _ in range(40)), packer.flush()])
    replace_attributes(parts, path, bytes((76, 0)) + bytes(10) + packed)
    with pytest.raises(ImageFileError, match=r"does not fit into memory|truncated or corrupt"):
        open_stack(path)


def test_nd2_frame_that_is_said_to_lie_behind_the_end_is_not_taken_for_black(nd2_parts):
    _, path = nd2_parts
    whole = path.read_bytes()
    name = b"ImageDataSeq|1!"
    place = whole.rindex(name) + len(name)
    path.write_bytes(whole[:place] + struct.pack("<Q", 10**6) + whole[place + 8 :])
    with pytest.raises(ImageFileError, match="lacks frame 2"):
        open_stack(path).read(1, Window(0, 0, 24, 32))
