"""Read and write image files: PNG, JPEG and TIFF, each kept at its full depth or refused by name.

``readers`` and ``writers`` are what other modules call; one module a format does the rest. Nothing is imported here, so that a
program that touches no file does not load the codecs.
"""
