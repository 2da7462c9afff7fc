"""Compute only the part that is looked at: dask arrays for previews and pipelines."""

from qmcif_engine import FusionConfig, fuse_lazily, make_focus_stack, open_stack

images = make_focus_stack(n_images=2, shape=(400, 600)).images  # a dask array or files would do as well
stack = open_stack(images, axes="ZYXS")

lazy = fuse_lazily(stack, FusionConfig().replaced({"tile_px": 256}))
print(f"{lazy.fused.npartitions} tiles, none computed yet")

corner = lazy.fused[:100, :100].compute(scheduler="synchronous")  # computes one tile
print(f"a corner of shape {corner.shape}")
