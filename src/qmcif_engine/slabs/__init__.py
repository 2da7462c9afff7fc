"""Fusion of a deep stack in slabs: overlapping groups of neighboring images first, then their results.

Each slab is an image in its own right, of a part of the depth: what people look through, retouch or show one by one. The maps of the
final image name images of the original stack.
"""

from __future__ import annotations

from qmcif_engine.slabs.layout import SlabLayout, plan_slabs
from qmcif_engine.slabs.slab_fusing import fuse_in_slabs

__all__ = ["SlabLayout", "fuse_in_slabs", "plan_slabs"]
