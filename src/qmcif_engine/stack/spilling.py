"""A growing row of equal arrays in bounded memory: the first few in memory, the others in a temporary file."""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

    from numpy.typing import NDArray


class SpilledArrays(Sequence["NDArray[Any]"]):
    """Arrays of one shape and dtype in the order they were appended; the file is gone when the object is."""

    def __init__(self, *, memory_bytes: int, folder: Path | None = None) -> None:
        self._memory_bytes, self._folder = memory_bytes, folder
        self._held: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None
        self._n_spilled = 0
        self._model: NDArray[Any] = np.empty(0)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._held) + self._n_spilled

    def append(self, array: NDArray[Any]) -> None:
        """Add an array at the end."""
        if self._file is None:
            # all are equally large, so the next one decides
            if (len(self._held) + 1) * array.nbytes <= self._memory_bytes:
                self._held.append(array)
                return
            self._file = tempfile.TemporaryFile(prefix="qmcif-", dir=self._folder)  # noqa: SIM115 - it lives as long as this object
            # closed when this object goes, also where a tile fails half-way; the system then removes the file
            weakref.finalize(self, self._file.close)
            self._model = np.empty((0, *array.shape), array.dtype)
        # reading has moved the position
        self._file.seek(self._n_spilled * array.nbytes)
        self._file.write(np.ascontiguousarray(array).data)
        self._n_spilled += 1

    @overload
    def __getitem__(self, number: int) -> NDArray[Any]: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[NDArray[Any]]: ...

    def __getitem__(self, number: int | slice) -> NDArray[Any] | Sequence[NDArray[Any]]:
        """Return an array; one from the file is a fresh copy."""
        if isinstance(number, slice):
            return [self[position] for position in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            msg = f"array {number} was asked for; there are {len(self)}: count from 0"
            raise IndexError(msg)
        return self._held[number] if number < len(self._held) else self.read_rows(number, 0, self._model.shape[1])

    def read_rows(self, number: int, top: int, bottom: int) -> NDArray[Any]:
        """Return some rows of an array, counted from 0; of one in the file nothing else is read."""
        if self._file is None or number < len(self._held):
            return self._held[number][top:bottom]
        shape = self._model.shape[1:]
        rows = np.empty((bottom - top, *shape[1:]), self._model.dtype)
        row_bytes = rows.itemsize * math.prod(shape[1:])
        self._file.seek(((number - len(self._held)) * shape[0] + top) * row_bytes)
        content = self._file.read(rows.nbytes)
        return np.frombuffer(content, rows.dtype).reshape(rows.shape)
