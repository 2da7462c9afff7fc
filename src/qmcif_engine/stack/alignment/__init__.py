"""Bring the images of a stack to coincide: estimate how they moved, keep the transforms, apply them window by window.

``estimation`` and ``suggestion`` find transforms, ``transforms`` holds them, ``aligned_stack`` applies them, ``residuals`` measures
what is left; `qmcif_engine.io.output.transform_files` keeps them for later. Nothing is imported here, so that a
program that aligns nothing does not load OpenCV.
"""
