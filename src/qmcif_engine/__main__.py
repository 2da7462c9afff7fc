"""The command line as ``python -m qmcif_engine``."""

from __future__ import annotations

import sys

from qmcif_engine.cli import main

if __name__ == "__main__":
    sys.exit(main())
