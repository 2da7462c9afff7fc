"""Fuse on a Dask cluster of this machine; the same lines serve a cluster of many. Port 0 is any free one."""

import tempfile
from pathlib import Path

from distributed import Client, LocalCluster

from qmcif_engine import FusionConfig, fuse_to_file, make_focus_stack, open_stack, write_image

if __name__ == "__main__":  # worker processes import this file
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, image in enumerate(make_focus_stack(n_images=2, shape=(300, 400)).images):
            write_image(folder / f"shot_{number}.tif", image)
        with (
            LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster, set_as_default=False) as client,
            open_stack(folder / "shot_*.tif") as stack,
        ):
            config = FusionConfig().replaced({"tile_px": 256})
            report = fuse_to_file(stack, folder / "fused.ome.zarr", config, client=client)
        print(f"{report.n_tiles} tiles were computed by the workers")
