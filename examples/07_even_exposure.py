"""Even exposure: images of a stack that differ in brightness are found and brought to one."""

import numpy as np

from qmcif_engine import fuse, make_focus_stack, open_stack, prepare_stack, suggest_even_exposure

scene = 60 + 0.6 * make_focus_stack(n_images=4, shape=(200, 240)).images
drift = np.linspace(1, [1, 1, 0.85], 4)  # the lamp becomes yellow: by image and color
stack = open_stack(list((scene * drift[:, None, None]).astype(np.uint8)))

suggestion = suggest_even_exposure(stack)
if suggestion is not None:
    print(f"the images differ by {100 * suggestion.difference:.0f} % of the range")
    stack = prepare_stack(stack, even_exposure=True)

result = fuse(stack)
print(f"mean of blue in the result: {result.fused[..., 2].mean():.0f}")
