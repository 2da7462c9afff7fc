"""Stacks of images of one scene, read window by window: their samples, noise, alignment, exposure, and generated examples."""
