"""Focus stacking: many images of one scene fused into one that is sharp everywhere.

The names in ``__all__`` are the public contract, together with the types they take and return, which are in `qmcif_engine.types`. Each
is imported when first used, so that ``qmcif --help`` starts at once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.config.presets import PRESETS
    from qmcif_engine.depth import height_map
    from qmcif_engine.errors import Cancelled, InvalidConfigError, InvalidImageError, QmcifError
    from qmcif_engine.fusing.batch import find_groups, run_batch
    from qmcif_engine.fusing.decomposing import decompose
    from qmcif_engine.fusing.focus_response import focus_response
    from qmcif_engine.fusing.in_memory import fuse
    from qmcif_engine.fusing.lazy import fuse_lazily
    from qmcif_engine.fusing.to_file import fuse_to_file
    from qmcif_engine.io.input.readers import read_image
    from qmcif_engine.io.input.stack_input import open_stack
    from qmcif_engine.io.output.transform_files import load_transforms, save_transforms
    from qmcif_engine.io.output.writers import write_image
    from qmcif_engine.metrics import evaluate
    from qmcif_engine.retouching import retouch
    from qmcif_engine.run.scheduler_connection import connect_to_scheduler
    from qmcif_engine.run.stack_output import write_stack
    from qmcif_engine.slabs import fuse_in_slabs
    from qmcif_engine.stack.alignment.suggestion import suggest_alignment
    from qmcif_engine.stack.exposure import suggest_even_exposure
    from qmcif_engine.stack.preparation import prepare_stack
    from qmcif_engine.stack.synthetic import make_focus_stack, make_lazy_focus_stack
    from qmcif_engine.tiles.output_maps import OUTPUT_MAPS

__version__ = version("napari-qmcif")

__all__ = [
    "OUTPUT_MAPS",
    "PRESETS",
    "Cancelled",
    "FusionConfig",
    "InvalidConfigError",
    "InvalidImageError",
    "QmcifError",
    "connect_to_scheduler",
    "decompose",
    "evaluate",
    "find_groups",
    "focus_response",
    "fuse",
    "fuse_in_slabs",
    "fuse_lazily",
    "fuse_to_file",
    "height_map",
    "load_transforms",
    "make_focus_stack",
    "make_lazy_focus_stack",
    "open_stack",
    "prepare_stack",
    "read_image",
    "retouch",
    "run_batch",
    "save_transforms",
    "suggest_alignment",
    "suggest_even_exposure",
    "write_image",
    "write_stack",
]

_MODULE_OF = {
    "OUTPUT_MAPS": "tiles.output_maps",
    "PRESETS": "config.presets",
    "Cancelled": "errors",
    "FusionConfig": "config.fusion_config",
    "InvalidConfigError": "errors",
    "InvalidImageError": "errors",
    "QmcifError": "errors",
    "connect_to_scheduler": "run.scheduler_connection",
    "decompose": "fusing.decomposing",
    "evaluate": "metrics",
    "find_groups": "fusing.batch",
    "focus_response": "fusing.focus_response",
    "fuse": "fusing.in_memory",
    "fuse_in_slabs": "slabs",
    "fuse_lazily": "fusing.lazy",
    "fuse_to_file": "fusing.to_file",
    "height_map": "depth",
    "load_transforms": "io.output.transform_files",
    "make_focus_stack": "stack.synthetic",
    "make_lazy_focus_stack": "stack.synthetic",
    "open_stack": "io.input.stack_input",
    "prepare_stack": "stack.preparation",
    "read_image": "io.input.readers",
    "retouch": "retouching",
    "run_batch": "fusing.batch",
    "save_transforms": "io.output.transform_files",
    "suggest_alignment": "stack.alignment.suggestion",
    "suggest_even_exposure": "stack.exposure",
    "write_image": "io.output.writers",
    "write_stack": "run.stack_output",
}


def import_lazily(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` (PEP 562) for a module whose public names are defined in other modules of the engine.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    homes : mapping of str to str
        For each public name the module below ``qmcif_engine`` that defines it.
    """

    def find(name: str) -> object:
        """Import a public name on first use and keep it."""
        if name not in homes:
            msg = f"module {module!r} has no attribute {name!r}; its public names are: {', '.join(sorted(homes))}"
            raise AttributeError(msg)
        value: object = getattr(import_module(f"qmcif_engine.{homes[name]}"), name)
        # once kept, Python finds it without asking here again
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return find, list_names


if not TYPE_CHECKING:  # a type checker would take any name for granted
    __getattr__, __dir__ = import_lazily(__name__, _MODULE_OF)
