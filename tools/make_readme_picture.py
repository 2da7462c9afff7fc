"""Make docs/images/demo.jpg, the picture of the README, from the demo's generated stack: inputs above, result and maps below."""

from __future__ import annotations

from pathlib import Path

from qmcif_engine import fuse, make_focus_stack, write_image
from qmcif_engine.cli.demo_command import N_IMAGES, SEED, SHAPE, side_by_side

TARGET = Path(__file__).parents[1] / "docs" / "images" / "demo.jpg"


def main() -> None:
    """Write the picture at half size."""
    stack = make_focus_stack(n_images=N_IMAGES, shape=SHAPE, seed=SEED)
    picture = side_by_side(stack, fuse(list(stack.images)))
    halved = picture.reshape(SHAPE[0], 2, -1, 2, 3).mean(axis=(1, 3)).round().astype("uint8")
    write_image(TARGET, halved, overwrite=True)


if __name__ == "__main__":
    main()
