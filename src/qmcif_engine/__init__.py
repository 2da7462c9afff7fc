"""Focus stacking: many images of one scene fused into one that is sharp everywhere.

The names in ``__all__`` are the public contract, together with the types they take and return. Each is imported when first used, so that
``qmcif --help`` starts at once.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

# isort: off
if TYPE_CHECKING:  # the list of public names, for type checkers and for `_find_homes`; the types are those with "as"
    from qmcif_engine.compiled import CompilationListener as CompilationListener
    from qmcif_engine.config.fusion_config import FusionConfig
    from qmcif_engine.config.presets import PRESETS
    from qmcif_engine.depth import HeightMap as HeightMap, HeightRequest as HeightRequest, height_map
    from qmcif_engine.errors import Cancelled, InvalidConfigError, InvalidImageError, QmcifError
    from qmcif_engine.fusing.batch import BatchRow as BatchRow, Group as Group, find_groups, run_batch
    from qmcif_engine.fusing.inspection import decompose, focus_response
    from qmcif_engine.fusing.in_memory import FusionResult as FusionResult, fuse
    from qmcif_engine.fusing.lazy import LazyFusion as LazyFusion, fuse_lazily
    from qmcif_engine.fusing.file_run import FileReport as FileReport
    from qmcif_engine.fusing.outputs import SlabLayout as SlabLayout
    from qmcif_engine.fusing.to_file import fuse_in_slabs, fuse_to_file
    from qmcif_engine.io.input.file_stack import FileStack as FileStack
    from qmcif_engine.io.input.image_file import ImageFile as ImageFile
    from qmcif_engine.io.input.open import read_image
    from qmcif_engine.io.input.open import open_stack
    from qmcif_engine.io.input.written_image import WrittenImage as WrittenImage
    from qmcif_engine.io.output.stack_output import write_stack
    from qmcif_engine.io.output.transform_files import load_transforms, save_transforms
    from qmcif_engine.io.output.formats import write_image
    from qmcif_engine.method.solver import Decomposition as Decomposition
    from qmcif_engine.metrics import evaluate
    from qmcif_engine.metrics.evaluation import Evaluation as Evaluation
    from qmcif_engine.retouching import RetouchedWindow as RetouchedWindow, retouch
    from qmcif_engine.run.execution import FusionProgress as FusionProgress, connect_to_scheduler
    from qmcif_engine.stack.alignment.suggestion import AlignmentSuggestion as AlignmentSuggestion, suggest_alignment
    from qmcif_engine.stack.alignment.transforms import Transforms as Transforms
    from qmcif_engine.stack.exposure import (
        ExposureCorrection as ExposureCorrection,
        ExposureSuggestion as ExposureSuggestion,
        suggest_even_exposure,
    )
    from qmcif_engine.stack.image_metadata import ImageMetadata as ImageMetadata
    from qmcif_engine.stack.preparation import prepare_stack
    from qmcif_engine.stack.samples import FocusRange as FocusRange
    from qmcif_engine.stack.stack import Stack as Stack
    from qmcif_engine.stack.synthetic import SyntheticStack as SyntheticStack, make_focus_stack
    from qmcif_engine.stack.synthetic_lazy import make_lazy_focus_stack
    from qmcif_engine.stack.window import Window as Window
    from qmcif_engine.tiles.output_maps import OUTPUT_MAPS
# isort: on

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


@cache
def _find_homes() -> dict[str, str]:
    """Return the module that defines each public name, as the imports above state it."""
    import ast

    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{__name__}.")]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> object:
        """Import a public name on first use, and keep it (PEP 562)."""
        homes = _find_homes()
        if name not in homes:
            msg = f"module {__name__!r} has no attribute {name!r}; its public names are: {', '.join(sorted(homes))}"
            raise AttributeError(msg)
        value = globals()[name] = getattr(import_module(homes[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_find_homes()})
