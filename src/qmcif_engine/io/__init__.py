"""Image files and stacks in files, each kept at its full depth or refused by name.

``input`` and ``output`` are what other modules call; one folder per format does the rest. Nothing is imported here, so that a program that
touches no file does not load the codecs.
"""
