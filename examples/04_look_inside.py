"""Keep the layers of the decomposition and read how the solver went."""

import numpy as np

from qmcif_engine import PRESETS, fuse, make_focus_stack

images = list(make_focus_stack(n_images=2, shape=(120, 160), seed=3).images)
result = fuse(images, PRESETS["paper"], keep_layers=True)

for number, layers in enumerate(result.layers, start=1):
    strength = np.abs(layers.detail).mean()
    print(f"image {number}: mean detail {strength:.2f} gray levels, stopped because: {layers.history.reason}")
    for iteration, record in enumerate(layers.history.records, start=1):
        if iteration % 5 == 0:
            print(f"  iteration {iteration:2d}: change {record.change:.2e}, sum residual {record.sum_residual:.2e}")
print(f"mean confidence {result.confidence.mean():.2f}")
