"""Fuse from file to file, tile by tile, within a memory budget: the way for slide scans."""

import tempfile
from pathlib import Path

from qmcif_engine import fuse_to_file, make_focus_stack, open_stack, write_image

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    for number, image in enumerate(make_focus_stack(n_images=3, shape=(300, 400)).images, start=1):
        write_image(folder / f"shot{number}.tif", image)

    with open_stack(folder / "shot*.tif") as stack:  # nothing is loaded yet
        report = fuse_to_file(
            stack,
            folder / "fused.ome.zarr",  # or .ome.tif, .tif, .png, .jpg
            maps=folder / "maps",
            memory_bytes=500_000_000,
            on_progress=lambda progress: print(f"{progress.done} of {progress.total}", end="\r"),
            resume=True,  # goes on where an interrupted run stopped
        )
    print(f"\n{report.n_tiles} tile(s) of {report.image_shape[1]} x {report.image_shape[0]} pixels")
    print(", ".join(path.name for path in report.outputs))
