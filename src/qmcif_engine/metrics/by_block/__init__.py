"""Evaluation of images larger than memory: every metric block by block, on Dask."""
