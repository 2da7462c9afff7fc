from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from qmcif_engine.errors import ImageFileError, MissingExtraError
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.stack.window import Window


@pytest.fixture
def files(tmp_path):
    for number in range(2):
        (tmp_path / f"shot{number}.NEF").write_bytes(bytes([number]) * 100)
    return tmp_path


@pytest.fixture
def rawpy(monkeypatch):
    """What rawpy offers, for files of one repeated byte: no camera's file is small and free enough to be part of the tests."""
    module = ModuleType("rawpy")
    module.options, module.flip = [], 0

    class Raw:
        def __init__(self, content):
            self.value = content[0]
            self.sizes = SimpleNamespace(height=20, width=30, flip=module.flip)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def postprocess(self, **options):
            module.options.append(options)
            shape = (30, 20, 3) if module.flip in (5, 6) else (20, 30, 3)
            return np.full(shape, 1000 + self.value, np.uint16)

    def imread(stream):
        content = stream.read()
        if content[:1] == b"\xff":
            msg = "b'Unsupported file format or not RAW file'"
            raise RuntimeError(msg)
        return Raw(content)

    module.imread = imread
    monkeypatch.setitem(sys.modules, "rawpy", module)
    return module


def test_raw_files_are_developed_alike_when_they_are_read(files, rawpy):
    stack = open_stack(files)
    assert (stack.image_shape, stack.dtype) == ((20, 30, 3), np.uint16)
    assert rawpy.options == []
    np.testing.assert_array_equal(stack.read(1, Window(0, 0, 2, 2)), np.full((2, 2, 3), 1001))
    assert rawpy.options == [{"use_camera_wb": True, "no_auto_bright": True, "gamma": (1, 1), "output_bps": 16}]


@pytest.mark.parametrize(("flip", "shape"), [(0, (20, 30, 3)), (3, (20, 30, 3)), (5, (30, 20, 3)), (6, (30, 20, 3))])
def test_upright_size_is_known_before_developing(files, rawpy, flip, shape):
    rawpy.flip = flip
    stack = open_stack(files)
    assert stack.image_shape == shape
    assert stack.read(0, Window.whole(shape)).shape == shape


@pytest.mark.usefixtures("rawpy")
def test_what_is_no_raw_file_is_refused(files):
    (files / "shot1.NEF").write_bytes(b"\xff" * 100)
    with pytest.raises(ImageFileError, match=r"shot1.NEF' is truncated or corrupt \(RuntimeError: b'Unsupported file format"):
        open_stack(files)


def test_message_without_rawpy_says_what_to_install(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "rawpy", None)
    with pytest.raises(
        MissingExtraError, match=r"shot0.NEF' is a camera raw file; rawpy is needed .* pip install 'napari-qmcif\[raw\]', or"
    ):
        open_stack(files)
