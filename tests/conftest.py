"""The order of the test files: those with slow tests come first."""


def pytest_collection_modifyitems(items):
    """Let no test process be left with a slow file at the end, while the others have nothing to do any more.

    A file stays in one process (``--dist loadfile``), and files are handed out in this order (``--no-loadscope-reorder``).
    """
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)
