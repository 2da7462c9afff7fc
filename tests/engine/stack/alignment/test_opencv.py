import sys

import cv2
import pytest

from qmcif_engine.errors import MissingExtraError
from qmcif_engine.stack.alignment.opencv import load_opencv, one_opencv_thread


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)

    with pytest.raises(MissingExtraError, match=r"aligning needs OpenCV, which is not installed: run pip install 'napari-qmcif\[align\]'"):
        load_opencv()


def test_opencv_has_one_thread_inside_and_as_many_as_before_outside():
    before = cv2.getNumThreads()
    cv2.setNumThreads(2)
    try:
        with one_opencv_thread(), one_opencv_thread():
            assert cv2.getNumThreads() == 1
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)
