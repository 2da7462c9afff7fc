"""Compiled loops, where plain NumPy would make many passes over memory.

A kernel is a function of contiguous arrays that works row by row, releases the interpreter lock and uses one thread: tiles and images are
what runs side by side. Sums have a fixed order, so that the bytes of a result depend on nothing but its input. What a kernel computes is
stated, and tested against plain NumPy, where it is called.

Rows are handed to small inner functions as one-dimensional slices that start at index 0: only then does the compiler know that no index is
negative and that memory is contiguous, and uses vector instructions.
"""
