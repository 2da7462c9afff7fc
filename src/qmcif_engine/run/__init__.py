"""Runs over the tiles of a plan: on threads or a cluster, within a memory budget, with progress, cancellation and resumption."""
