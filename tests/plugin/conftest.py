"""Keep the plugin's tests from touching the user's settings, and from being left out unnoticed.

Without the viewer these tests cannot run: they are left out, and the summary says so. `make test` sets ``QMCIF_REQUIRE_VIEWER``, which
turns that into an error.
"""

import os
from importlib.util import find_spec

import pytest

# napari reads this once, on import; its viewer fixture would otherwise reset the settings file of whoever runs the tests
os.environ["NAPARI_CONFIG"] = ""

_MISSING = [name for name in ("napari", "npe2", "pytestqt") if find_spec(name) is None]
_REMEDY = f"tests/plugin needs {', '.join(_MISSING)}: pip install -e '.[napari,test,test-viewer]'"

if _MISSING:
    if os.environ.get("QMCIF_REQUIRE_VIEWER"):
        raise pytest.UsageError(_REMEDY)
    collect_ignore_glob = ["*"]


def pytest_terminal_summary(terminalreporter):
    if _MISSING:
        terminalreporter.section("left out")
        terminalreporter.write_line(_REMEDY)
