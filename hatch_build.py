"""Metadata that depends on where the project lives: its URLs, and a README whose links and images also show on PyPI.

The addresses stand in one place, ``[tool.qmcif]`` in pyproject.toml. While they are empty none is invented: no URL is written but that of
the paper, links stay relative, and ``python tools/check_release.py`` refuses the release.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?!https?:|#|mailto:)([^)\s]+)\)")


class AddressMetadataHook(MetadataHookInterface):
    """Source of the dynamic fields ``urls`` and ``readme``."""

    def update(self, metadata: dict[str, object]) -> None:
        """Fill in both fields."""
        root = Path(self.root)
        addresses = read_addresses(root)
        metadata["urls"] = list_urls(addresses)
        text = make_links_absolute((root / "README.md").read_text(encoding="utf-8"), addresses["repository"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def read_addresses(root: Path) -> dict[str, str]:
    """Return the addresses of the project by their names."""
    addresses: dict[str, str] = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["qmcif"]
    return addresses


def list_urls(addresses: dict[str, str]) -> dict[str, str]:
    """Return the project's URLs, those left out that are not known yet."""
    repository, documentation = addresses["repository"].rstrip("/"), addresses["documentation"]
    urls = {"Paper": addresses["paper"]}
    if repository:
        urls |= {"Homepage": documentation or repository, "Source": repository, "Issues": f"{repository}/issues"}
        urls["Changelog"] = f"{repository}/blob/main/CHANGELOG.md"
    if documentation:
        urls["Documentation"] = documentation
    return urls


def make_links_absolute(text: str, repository: str) -> str:
    """Return the README with links and images that lead into the repository, where its address is known."""
    if not repository:
        return text
    base = repository.rstrip("/")
    return RELATIVE_LINK.sub(lambda found: f"{found[1]}{found[2]}({base}/{'raw' if found[1] else 'blob'}/main/{found[3]})", text)
