"""Measure what passes through the client of a cluster while it fuses into files: the bytes over its sockets.

Run as ``python benchmarks/client_traffic.py [--side 2048] [--tile-px 256] [--output .ome.zarr .ome.tif]``. Scheduler and three workers are
processes of their own. Each output is written once by workers that see its folder, and once by a client to which they send their tiles
back.
"""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import numpy as np
import tifffile
from separate_cluster import separate_cluster
from tornado.iostream import IOStream

from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.io.input.open import open_stack
from qmcif_engine.pipeline.to_file import fuse_to_file
from qmcif_engine.stack.synthetic import make_focus_stack

if TYPE_CHECKING:
    from distributed import Client

N_WORKERS = 3
CONFIG = FusionConfig().replaced({"iterations": 1, "smoothness": 0.0, "noise": "off"})
"""Light arithmetic: traffic does not depend on it."""


class SocketCount:
    """Bytes over all sockets of this process while the block lasts."""

    def __init__(self) -> None:
        self.sent = self.received = 0

    def __enter__(self) -> SocketCount:
        write, read = IOStream.write_to_fd, IOStream.read_from_fd

        def counted_write(stream: IOStream, data: memoryview) -> int:
            n_bytes = write(stream, data)
            self.sent += n_bytes or 0
            return n_bytes

        def counted_read(stream: IOStream, buffer: bytearray | memoryview) -> int | None:
            n_bytes = read(stream, buffer)
            self.received += n_bytes or 0
            return n_bytes

        self._patches = [patch.object(IOStream, "write_to_fd", counted_write), patch.object(IOStream, "read_from_fd", counted_read)]
        for one in self._patches:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._patches:
            one.stop()


def count_traffic(source: Path, target: Path, *, tile_px: int, client: Client) -> tuple[SocketCount, int]:
    """Fuse into a file, and return the bytes over the sockets of this process and the number of tiles."""
    with open_stack(source) as stack, SocketCount() as count:
        report = fuse_to_file(stack, target, CONFIG.replaced({"tile_px": tile_px}), client=client)
    return count, report.n_tiles


def write_source(path: Path, side_px: int) -> None:
    """Write a pair of large pictures as one tiled TIFF: a small generated pair, repeated."""
    small = make_focus_stack(shape=(512, 512), n_images=2, seed=1).images
    n_times = -(-side_px // 512)
    pair = np.tile(np.asarray(small), (1, n_times, n_times, 1))[:, :side_px, :side_px]
    tifffile.imwrite(path, pair, photometric="rgb", tile=(512, 512))


def main() -> None:
    """Print a line for each output and each way of writing it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", type=int, default=2048)
    parser.add_argument("--tile-px", type=int, default=256)
    parser.add_argument("--output", nargs="+", default=[".ome.zarr", ".ome.tif"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, separate_cluster(N_WORKERS) as client:
        folder = Path(place)
        write_source(folder / "pair.tif", options.side)
        fuse_and_count = partial(count_traffic, folder / "pair.tif", tile_px=options.tile_px, client=client)
        for suffix in options.output:
            count, n_tiles = fuse_and_count(folder / f"written{suffix}")
            show(f"{suffix}, workers write", count, n_tiles=n_tiles, side_px=options.side)
            with patch("qmcif_engine.run.cluster.share_folder", return_value=False):
                count, n_tiles = fuse_and_count(folder / f"relayed{suffix}")
            show(f"{suffix}, client writes", count, n_tiles=n_tiles, side_px=options.side)


def show(name: str, count: SocketCount, *, n_tiles: int, side_px: int) -> None:
    """Print the bytes of one run, and those of its result for comparison."""
    print(
        f"{name}: {n_tiles} tiles, {3 * side_px**2 / 1e6:.1f} MB of result; over the client's sockets {count.received / 1e6:.3f} MB in, "
        f"{count.sent / 1e6:.3f} MB out, {(count.received + count.sent) / n_tiles / 1e3:.1f} kB a tile",
        flush=True,
    )


if __name__ == "__main__":
    main()
