"""Fuse image files given on the command line, or a pair this script writes first, and keep the map of sources."""

import sys

from qmcif_engine import fuse, make_focus_stack, read_image, write_image

paths = sys.argv[1:]
if not paths:
    paths = ["near.png", "far.png"]
    for path, image in zip(paths, make_focus_stack(n_images=2, shape=(240, 320)).images, strict=True):
        write_image(path, image, overwrite=True)

result = fuse([read_image(path).samples for path in paths])
write_image("fused.png", result.fused, overwrite=True)
write_image("source_index.tif", result.source_index, overwrite=True)
print(f"fused.png holds the fused image, source_index.tif which of the {len(paths)} files each pixel came from")
