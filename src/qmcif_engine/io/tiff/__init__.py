"""TIFF, OME-TIFF and ImageJ stacks."""
