"""Fuse the channels of a fluorescence stack: by one decision for all of them, and each by its own."""

import numpy as np

from qmcif_engine import fuse, make_focus_stack, open_stack

# two dyes that have nothing in common, the second one dim: axes Z, C, Y, X
bright, dim = (make_focus_stack(n_images=3, shape=(200, 240), seed=seed, dtype=np.uint16, is_color=False).images for seed in (1, 2))
stack = np.stack([bright, dim // 50], axis=1)

joint = fuse(open_stack(stack, axes="ZCYX"))
each = fuse(open_stack(stack, axes="ZCYX", channels="each"))

print(f"ranges that count as black and white: {[tuple(bounds) for bounds in each.focus_range]}")
print(f"source index: {joint.source_index.shape} for both channels, {each.source_index.shape} for each")
for channel in (0, 1):
    share = (each.source_index[..., channel] == joint.source_index).mean()
    print(f"channel {channel + 1} alone decides as both together on {share:.0%} of the pixels")
