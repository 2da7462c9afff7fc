"""Which images each slab has, and where its files lie."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qmcif_engine.errors import InvalidConfigError
from qmcif_engine.io.output.placement import place_files

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

# SHA-256 in hexadecimal, as `identify_run` gives it
_IDENTITY_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SlabLayout:
    """How a stack is cut into slabs, and where these are kept.

    Attributes
    ----------
    size : int
        Images a slab.
    overlap : int
        Images that neighboring slabs share, at least.
    folder : Path
        Made where it is missing; the slabs stay there.
    """

    size: int
    overlap: int
    folder: Path


def plan_slabs(n_images: int, *, size: int, overlap: int) -> tuple[range, ...]:
    """Return which images each slab has; all slabs are of one size, so the last shares more with the one before it.

    Raises
    ------
    InvalidConfigError
        When these slabs cannot be cut.
    """
    if not 2 <= size < n_images:
        msg = f"slabs of {size} images were asked of a stack of {n_images}; 2 to {n_images - 1} are needed: choose another size"
        raise InvalidConfigError(msg)
    if not 0 <= overlap < size:
        msg = f"an overlap of {overlap} images was asked of slabs of {size}; 0 to {size - 1} are needed: choose another overlap"
        raise InvalidConfigError(msg)
    starts = [*range(0, n_images - size, size - overlap), n_images - size]
    return tuple(range(start, start + size) for start in starts)


@dataclass(frozen=True, slots=True)
class SlabFiles:
    """The files of one slab.

    Attributes
    ----------
    folder : Path
    number : int
        Counted from 0; in names from 1.
    """

    folder: Path
    number: int

    @property
    def image(self) -> Path:
        """The fused slab."""
        return self.folder / f"slab_{self.number + 1:03d}.ome.tif"

    @property
    def maps(self) -> Path:
        """Folder of its maps."""
        return self.folder / f"slab_{self.number + 1:03d}_maps"

    @property
    def heights(self) -> Path:
        """Its heights above its first image."""
        return self.folder / f"slab_{self.number + 1:03d}_height.ome.tif"

    @property
    def _note(self) -> Path:
        return self.folder / f"slab_{self.number + 1:03d}.identity"

    def note_identity(self, identity: str) -> None:
        """Write down what the slab was made of, once all of its files are there."""

        def write(stream: BinaryIO) -> None:
            stream.write(identity.encode())

        place_files({self._note: write}, overwrite=True)

    def known_identity(self) -> str | None:
        """Return what the slab was made of; None where it is not finished."""
        if not self._note.is_file():
            return None
        with self._note.open("rb") as stream:
            # what is no identity differs from every identity, and is refused as such
            return stream.read(_IDENTITY_BYTES).decode(errors="replace")
