"""``qmcif view``: a stack opened in napari with the fusion beside it. The viewer is imported only when the command runs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

HELP = "open a stack in napari, with the fusion beside it"


def add_arguments(parser: ArgumentParser) -> None:
    """Add what the command takes."""
    parser.add_argument(
        "images",
        nargs="+",
        type=Path,
        metavar="INPUT",
        help="image files; or one folder, multi-page TIFF or OME-Zarr with a stack; or a saved result",
    )


def run(options: Namespace) -> None:
    """Open the viewer and stay until it is closed."""
    import napari

    from napari_qmcif.dock import open_page
    from napari_qmcif.layers_out import add_layers
    from napari_qmcif.reader import open_files

    # before the viewer: what is refused is said on the command line, with its exit code
    layers = open_files(options.images)
    viewer = napari.Viewer(title="qmcif view")
    add_layers(viewer, layers)
    open_page(viewer)
    napari.run()
