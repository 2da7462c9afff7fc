"""The choice of one image in an input that holds several: by its number or by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.input.image_file import refuse_content

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qmcif_engine.io.remote.remote_path import Location

LONGEST_LIST = 20
"""Images that a message lists before it only counts."""


def choose_image(names: Sequence[str], wanted: int | str | None, *, path: Location) -> int:
    """Return which image is meant, counted from 0.

    Parameters
    ----------
    names : sequence of str
        One an image, at least one; empty where an image has no name.
    wanted : int or str, optional
        Number counted from 1, or a name that one image has; may be left out where there is one image.
    path : Path
        What messages call the input.

    Raises
    ------
    ImageFileError
        When there are several and none is chosen; the message lists them, and `choices` too.
    InvalidConfigError
        When there is none of that number or name, or several.
    """
    if wanted is None:
        if len(names) == 1:
            return 0
        error = refuse_content(
            path,
            given=f"{len(names)} images ({list_images(names)})",
            needed="one of them",
            remedy="choose it by number or name with --image (image=)",
        )
        error.choices = tuple(name or str(number) for number, name in enumerate(names, 1))
        raise error
    if isinstance(wanted, int) and 1 <= wanted <= len(names):
        return wanted - 1
    if isinstance(wanted, str) and list(names).count(wanted) == 1:
        return list(names).index(wanted)
    known = "1 image" if len(names) == 1 else f"{len(names)} images"
    msg = f"the image {wanted!r} was chosen of {str(path)!r}, which holds {known} ({list_images(names)}); give the number or name of one"
    raise InvalidConfigError(msg)


def list_images(names: Sequence[str]) -> str:
    """Return numbers and names of images as messages give them."""
    shown = [f"{number} {name!r}" if name else str(number) for number, name in enumerate(names[:LONGEST_LIST], 1)]
    return ", ".join(shown) + (f" and {len(names) - LONGEST_LIST} more" if len(names) > LONGEST_LIST else "")
