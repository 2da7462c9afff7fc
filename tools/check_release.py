"""What still keeps a release from being published: ``python tools/check_release.py [--tag v0.1.0] dist``.

Exits with 1 and one line per obstacle, 0 where there is none. The release workflow runs it before anything is uploaded.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main(arguments: list[str] | None = None) -> int:
    """Print the obstacles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", nargs="?", type=Path, help="folder with the built wheel and source distribution")
    parser.add_argument("--tag", help="the tag to be released")
    options = parser.parse_args(arguments)
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = find_obstacles(pyproject, changelog, tag=options.tag)
    if options.dist is not None:
        found += check_distributions(options.dist)
    for obstacle in found:
        print(f"not ready: {obstacle}")
    return 1 if found else 0


def find_obstacles(pyproject: dict[str, object], changelog: str, *, tag: str | None = None) -> list[str]:
    """Return what is missing in the files of the project."""
    version = pyproject["project"]["version"]
    addresses = pyproject["tool"]["qmcif"]
    obstacles = [
        f"the address of the {name} is unknown: set {name} under [tool.qmcif] in pyproject.toml"
        for name in ("repository", "documentation")
        if not addresses[name]
    ]
    obstacles += [
        f"the {name} is {address!r}; an address that begins with https:// is needed"
        for name, address in addresses.items()
        if address and not address.startswith("https://")
    ]
    if not re.search(rf"^## \[{re.escape(version)}\]", changelog, flags=re.MULTILINE):
        obstacles.append(f"CHANGELOG.md has no heading [{version}]: rename [Unreleased] and add the date")
    if tag is not None and tag != f"v{version}":
        obstacles.append(f"the tag is {tag}, the version {version}: tag v{version}, or change the version")
    return obstacles


def check_distributions(folder: Path) -> list[str]:
    """Return what twine finds wrong with the built files."""
    files = sorted(folder.glob("*.whl")) + sorted(folder.glob("*.tar.gz"))
    if len(files) != 2:
        return [f"{folder} holds {len(files)} distributions; one wheel and one .tar.gz are needed: make build in an empty folder"]
    checked = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True, check=False)
    return [] if checked.returncode == 0 else [f"twine check: {checked.stdout.strip()}"]


if __name__ == "__main__":
    sys.exit(main())
