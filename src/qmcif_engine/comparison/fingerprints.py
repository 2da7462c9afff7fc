"""Whether a result still belongs to its inputs, its settings and the program that made it."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import qmcif_engine
from qmcif_engine.errors import ImageFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qmcif_engine.config.fusion_config import FusionConfig

# changes there touch no figure, except those of the other methods we compare with, whose code lies in comparison.rivals
_WITHOUT_EFFECT = ("cli", "comparison")
_WITH_EFFECT = ("comparison", "rivals")
_NUMERICAL_PACKAGES = ("numpy", "scipy", "scikit-learn")


def digest_texts(parts: Iterable[str]) -> str:
    """Return one digest of several texts, which their borders enter too."""
    # as JSON, since "ab" + "c" joined would equal "a" + "bc"
    return hashlib.sha256(json.dumps(list(parts)).encode()).hexdigest()


def digest_file(path: Path) -> str:
    """Return the digest of a file's content.

    Raises
    ------
    ImageFileError
        When it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        msg = f"{str(path)!r} cannot be read ({error.strerror}); a readable image file is needed: check its name and permissions"
        raise ImageFileError(msg) from error


def digest_settings(settings: FusionConfig | None, *, rival: str | None = None) -> str:
    """Return the digest of all settings, or of the rival's name; without either it stands for another program's, which are not known."""
    return digest_texts([json.dumps(rival if settings is None else settings.to_dict(), sort_keys=True)])


@cache
def digest_engine() -> str:
    """Return the digest of everything the figures depend on besides inputs and settings: our code and the numerical packages.

    The version number alone would take results from before a change of the code, as developers make them, for new ones.
    """
    root = Path(qmcif_engine.__file__).parent
    # .npz: the learned dictionaries
    files = [path for path in root.rglob("*") if path.suffix in (".py", ".npz") and _has_effect(path.relative_to(root).parts)]
    parts = [f"{path.relative_to(root).as_posix()} {digest_file(path)}" for path in sorted(files)]
    return digest_texts([*parts, *(f"{name} {version(name)}" for name in _NUMERICAL_PACKAGES)])


def _has_effect(parts: tuple[str, ...]) -> bool:
    return parts[0] not in _WITHOUT_EFFECT or parts[:2] == _WITH_EFFECT
