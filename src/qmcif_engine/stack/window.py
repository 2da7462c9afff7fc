"""Rectangles of an image."""

from __future__ import annotations

from typing import NamedTuple


class Window(NamedTuple):
    """A half-open rectangle: rows from `top` up to `bottom`, columns from `left` up to `right`."""

    top: int
    left: int
    bottom: int
    right: int

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Window:
        """Return the window that covers an image of shape (H, W, ...)."""
        return cls(0, 0, shape[0], shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        return self.bottom - self.top, self.right - self.left

    @property
    def slices(self) -> tuple[slice, slice]:
        """What cuts the window out of an image (H, W, ...)."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def grown(self, margin_px: int, shape: tuple[int, int]) -> Window:
        """Return the window with a margin on every side, as far as an image of this shape goes."""
        return Window(
            max(self.top - margin_px, 0),
            max(self.left - margin_px, 0),
            min(self.bottom + margin_px, shape[0]),
            min(self.right + margin_px, shape[1]),
        )

    def ends_of(self, shape: tuple[int, int]) -> tuple[bool, bool, bool, bool]:
        """Return whether the window reaches the top, left, bottom and right border of an image of this shape."""
        return self.top == 0, self.left == 0, self.bottom == shape[0], self.right == shape[1]

    def common(self, other: Window) -> Window:
        """Return what two windows share; they must touch."""
        return Window(max(self.top, other.top), max(self.left, other.left), min(self.bottom, other.bottom), min(self.right, other.right))

    def moved(self, rows: int, columns: int) -> Window:
        """Return the same rectangle, so many rows further down and columns further right."""
        return Window(self.top + rows, self.left + columns, self.bottom + rows, self.right + columns)

    def relative_to(self, outer: Window) -> Window:
        """Return the same rectangle counted from the corner of an outer one."""
        return Window(self.top - outer.top, self.left - outer.left, self.bottom - outer.top, self.right - outer.left)


def cut_side(side_px: int, *, shape: tuple[int, int], tile_px: int, multiple_of: int) -> list[tuple[int, int]]:
    """Cut one side of an image into spans of about `tile_px` that start on multiples; small images stay whole."""
    # by area: a long narrow image need not be cut
    if shape[0] * shape[1] <= tile_px**2:
        return [(0, side_px)]
    # parts of equal length, rather than full tiles and a small rest
    n_parts = -(-side_px // tile_px)
    length = multiple_above(-(-side_px // n_parts), multiple_of)
    return [(start, min(start + length, side_px)) for start in range(0, side_px, length)]


def multiple_above(length_px: int, unit_px: int) -> int:
    """Return the least multiple of a unit that is not below a length."""
    return -(-length_px // unit_px) * unit_px
