"""Ours, not in the paper: decisions that fit together, drawn to the pixel and blended, and where along the stack each pixel lies."""
