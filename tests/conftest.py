"""What holds for all tests: the order of their files, and that interruptions reach the programs they start."""

import signal


def pytest_configure():
    """Undo what a shell does to a program in its background: SIGINT is ignored there, by all that the program starts, too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Put files with slow tests first, so that no test process is left with one at the end while the others have nothing to do any more.

    A file stays in one process (``--dist loadfile``), and files are handed out in this order (``--no-loadscope-reorder``).
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
