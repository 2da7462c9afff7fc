"""What holds for all tests: the order of their files, and that interruptions reach the programs they start."""

import gc
import signal


def pytest_configure():
    """Undo what a shell or ``nohup`` does to a program in the background: signals that it ignores, all that it starts ignores, too."""
    usual = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    for name, handler in usual.items():
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items):
    """Put files with slow tests first, then those of the viewer, so that no test process is left with one while the others have no work.

    A file stays in one process (``--dist loadfile``), and files are handed out in this order (``--no-loadscope-reorder``).
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, item.path.parent.name != "plugin"))


def pytest_collection_finish():
    """Take all that is loaded by now out of the garbage collection.

    napari's fixture of a viewer collects several times to find what outlives it, and would look at every object of every library and of
    some 9000 tests each time.
    """
    gc.collect()
    gc.freeze()
