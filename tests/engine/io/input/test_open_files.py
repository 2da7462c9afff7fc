"""Files that stay open: few at a time, read at any place, closed when nobody needs them."""

import os

import pytest

from qmcif_engine.io.input import segments
from qmcif_engine.io.input.segments import OpenFiles


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
