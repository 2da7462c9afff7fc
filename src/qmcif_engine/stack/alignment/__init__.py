"""Alignment of a stack: an estimate of how its images moved, the transforms, and their use window by window.

``estimation`` and ``suggestion`` find transforms, ``transforms`` holds them, ``aligned_stack`` applies them, ``residuals`` measures
what is left; `qmcif_engine.io.output.transform_files` keeps them for later. Nothing is imported here, so that a
program that aligns nothing does not load OpenCV.
"""
