"""Alignment of a stack: an estimate of how its images moved, the transforms, and their use window by window.

``estimation`` and ``suggestion`` find transforms from ``pairs`` of images, whose windows ``matching`` finds and ``fitting`` fits a movement
to; ``transforms`` holds them and ``warping`` applies them. `qmcif_engine.io.output.transform_files` keeps them for later.
"""
