"""From a real z-stack with channels to a fused image and a height map: the confocal neuron that comes with the plugin."""

from importlib.resources import files

import numpy as np

from qmcif_engine import fuse, height_map, open_stack, write_image

planes = open_stack(files("napari_qmcif") / "samples" / "neuron" / "neuron.tif").to_dask()[::5, 96:224, 64:192].compute()
dim = planes // 4 + 40  # a second channel, dimmer, to show how one channel decides for all
stack = open_stack(np.stack([planes, dim], axis=1), axes="ZCYX", channels=[1])

result = fuse(stack, with_position=True)
heights = height_map(result.position, z_step=5.0, confidence=result.confidence, guide=result.fused, smoothing_px=4)

write_image("fused.tif", result.fused, overwrite=True)
write_image("heights.tif", heights.height, overwrite=True)
is_sure = heights.confidence > 0.9
print(f"{stack.n_images} planes fused; the second channel follows: {result.companions.shape}")
print(f"heights from {heights.height[is_sure].min():.1f} to {heights.height[is_sure].max():.1f} where they are sure")
