"""A growing sequence of equal arrays in bounded memory: the first few in memory, the others in a temporary file."""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray


class SpilledArrays(Sequence[NDArray[Any]]):
    """Arrays of one shape and dtype in the order they were appended; the file is removed with the object."""

    def __init__(self, *, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._held: list[NDArray[Any]] = []
        self._file: IO[bytes] | None = None
        self._n_spilled = 0

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._held) + self._n_spilled

    def append(self, array: NDArray[Any]) -> None:
        """Add an array at the end."""
        # all are equally large, so the next one decides
        if self._file is None and (len(self._held) + 1) * array.nbytes <= self._memory_bytes:
            self._held.append(array)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="qmcif-")  # noqa: SIM115 - it lives as long as this object
            # closed with this object, also where a tile fails half-way; the system then removes the file
            weakref.finalize(self, self._file.close)
            self._shape, self._dtype = array.shape, array.dtype
        # reading has moved the position
        self._file.seek(self._n_spilled * array.nbytes)
        self._file.write(np.ascontiguousarray(array).data)
        self._n_spilled += 1

    def __getitem__(self, number: Any) -> Any:  # noqa: ANN401 - one whole number, one array
        """Return one array; the number past the last one ends an iteration."""
        if number >= len(self):
            raise IndexError(number)
        return self.read_rows(number, 0, None)

    def read_rows(self, number: int, top: int, bottom: int | None) -> NDArray[Any]:
        """Return some rows of an array, both counted from 0; of one in the file nothing else is read."""
        if self._file is None or number < len(self._held):
            return self._held[number][top:bottom]
        n_rows, *others = self._shape
        bottom = n_rows if bottom is None else bottom
        row_bytes = self._dtype.itemsize * math.prod(others)
        self._file.seek(((number - len(self._held)) * n_rows + top) * row_bytes)
        content = self._file.read((bottom - top) * row_bytes)
        return np.frombuffer(content, self._dtype).reshape(bottom - top, *others)
