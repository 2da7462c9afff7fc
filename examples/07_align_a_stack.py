"""Shift the images of a generated stack against each other, align them again, and write the aligned stack by itself."""

import numpy as np

from qmcif_engine import make_focus_stack, open_stack, prepare_stack, write_stack

scene = make_focus_stack(n_images=3, shape=(300, 400)).images
moved = [np.ascontiguousarray(image[10 + 4 * number : 270 + 4 * number, 10:370]) for number, image in enumerate(scene)]

with open_stack(moved) as stack:
    aligned = prepare_stack(stack, align="translation")  # also similarity, affine, homography
    (path,) = write_stack(aligned, "aligned.ome.tif", crop=True, overwrite=True)

with open_stack(path) as result:
    height, width = result.image_shape[:2]
    print(f"{path} holds {result.n_images} images of {width} x {height} pixels, which lie on each other")
