"""Zarr arrays and OME-Zarr images."""
