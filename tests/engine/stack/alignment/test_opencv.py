import cv2

from qmcif_engine.stack.alignment.opencv import one_opencv_thread


def test_opencv_has_one_thread_inside_and_as_many_as_before_outside():
    before = cv2.getNumThreads()
    cv2.setNumThreads(2)
    try:
        with one_opencv_thread(), one_opencv_thread():
            assert cv2.getNumThreads() == 1
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)
