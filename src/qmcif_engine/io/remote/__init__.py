"""Files and Zarr stores on servers, read and written by whoever computes."""
