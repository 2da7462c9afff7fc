"""What a run is known by: version, settings and every sample that went in, and nothing of when and where."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from qmcif_engine import __version__
from qmcif_engine.config.fusion_config import FusionConfig
from qmcif_engine.stack.image_metadata import ImageMetadata, name_planes
from qmcif_engine.stack.samples import FocusRanges, list_bounds
from qmcif_engine.stack.separate_channels import EACH
from qmcif_engine.stack.stack import Stack, companions_of
from qmcif_engine.tiles.plan import plan_tiles
from qmcif_engine.tiles.task import TileTask


def describe_run(stack: Stack, config: FusionConfig, focus_range: FocusRanges, *, guide: Stack | None = None) -> dict[str, Any]:
    """Return version, settings and the kind of the input and of the guide, without times, names and paths.

    The same samples and settings give the same description, wherever and however the samples are stored.
    """
    return {
        "version": __version__,
        "images": stack.n_images,
        "image_shape": list(stack.image_shape),  # tifffile takes "shape" in a description for its own
        "dtype": stack.dtype.name,
        "focus_range": list_bounds(focus_range),
        "settings": config.to_dict(),
        # said only where it applies
        **({"channels": EACH} if stack.decides_each else {}),
        **({} if guide is None else {"guide": {"image_shape": list(guide.image_shape), "dtype": guide.dtype.name}}),
    }


def describe_fused(stack: Stack) -> ImageMetadata:
    """Return the metadata of what is made of a stack; channels that were recorded one by one are named, so that none passes for a color."""
    known, shown = stack.metadata, stack.companions or stack
    if not (known.has_separate_channels or stack.n_separate_channels) or len(shown.image_shape) < 3:
        return known
    names = name_planes(known.channel_names, shown.image_shape[2])
    return replace(known, channel_names=names, has_separate_channels=True)


def identify_run(stack: Stack, config: FusionConfig, focus_range: FocusRanges, *, guide: Stack | None = None) -> str:
    """Return the identity that a run would have, by reading every sample and fusing none."""
    task = TileTask(stack=stack, config=config, focus_range=focus_range, companions=companions_of(stack), guide=guide)
    tiles = plan_tiles((stack.image_shape[0], stack.image_shape[1]), config).tiles
    return digest([describe_run(stack, config, focus_range, guide=guide), [task.digest_input(tile).hex() for tile in tiles]])


def digest(description: object) -> str:
    """Return a digest of what JSON can say."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
