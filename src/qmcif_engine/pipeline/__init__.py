"""The three ways to fuse: in memory, from files to files, and lazily."""
