"""Tiny data sets with a known truth."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

import pytest

from qmcif_engine.comparison.datasets import Dataset, find_dataset
from qmcif_engine.io.output.formats import write_image
from qmcif_engine.stack.synthetic import make_focus_stack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SHAPE = (48, 64)


def write_set(folder: Path, name: str, *, n_images: int = 2, has_truth: bool = True, seed: int = 1) -> None:
    stack = make_focus_stack(n_images=n_images, shape=SHAPE, seed=seed)
    for letter, image in zip(ascii_lowercase, stack.images, strict=False):
        write_image(folder / f"{name}_{letter}.png", image, overwrite=True)
    if has_truth:
        write_image(folder / f"{name}_truth.png", stack.truth, overwrite=True)


@pytest.fixture
def add_set() -> Callable[..., None]:
    return write_set


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    """Two pairs with a truth, in a folder of their own."""
    folder = tmp_path / "garden"
    folder.mkdir()
    write_set(folder, "01", seed=1)
    write_set(folder, "02", seed=2)
    return find_dataset(folder)
