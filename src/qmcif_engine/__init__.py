"""Focus stacking: many images of one scene fused into one that is sharp everywhere.

The names in ``__all__`` are the public contract; each is imported when first used, so that ``qmcif --help`` starts at once.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmcif_engine.batch import BatchRow, Group, find_groups, run_batch
    from qmcif_engine.config.fusion_config import FusionConfig, setting_fields
    from qmcif_engine.config.presets import PRESETS
    from qmcif_engine.depth import HeightMap, HeightRequest, height_map
    from qmcif_engine.errors import Cancelled, InvalidConfigError, InvalidImageError, QmcifError
    from qmcif_engine.fusing.in_memory import FusionResult, fuse
    from qmcif_engine.fusing.lazy import LazyFusion, fuse_lazily
    from qmcif_engine.fusing.to_file import FileReport, fuse_to_file
    from qmcif_engine.io.input.file_stack import FileStack
    from qmcif_engine.io.input.image_file import ImageFile
    from qmcif_engine.io.input.lazy_stack import stack_to_dask
    from qmcif_engine.io.input.readers import read_image
    from qmcif_engine.io.input.stack_input import open_stack
    from qmcif_engine.io.input.written_image import WrittenImage, find_record, open_written
    from qmcif_engine.io.output.transform_files import load_transforms, save_transforms
    from qmcif_engine.io.output.writers import write_image
    from qmcif_engine.kernels.compilation_notice import hear_of_compilation
    from qmcif_engine.metrics import evaluate
    from qmcif_engine.metrics.evaluation import Evaluation
    from qmcif_engine.retouching import RetouchedWindow, retouch
    from qmcif_engine.run.stack_output import write_stack
    from qmcif_engine.run.steps import FusionProgress
    from qmcif_engine.slabs import SlabLayout, fuse_in_slabs
    from qmcif_engine.stack.alignment.suggestion import AlignmentSuggestion, suggest_alignment
    from qmcif_engine.stack.alignment.transforms import Transforms
    from qmcif_engine.stack.exposure import ExposureCorrection
    from qmcif_engine.stack.exposure_suggestion import ExposureSuggestion, suggest_even_exposure
    from qmcif_engine.stack.image_metadata import ImageMetadata
    from qmcif_engine.stack.preparation import prepare_stack
    from qmcif_engine.stack.samples import FocusRange
    from qmcif_engine.stack.stack import Stack, StackView
    from qmcif_engine.stack.synthetic import SyntheticStack, make_focus_stack
    from qmcif_engine.stack.synthetic_lazy import make_lazy_focus_stack
    from qmcif_engine.stack.window import Window
    from qmcif_engine.tiles.focus_response import focus_response
    from qmcif_engine.tiles.output_maps import OUTPUT_MAPS

__version__ = version("napari-qmcif")

__all__ = [
    "OUTPUT_MAPS",
    "PRESETS",
    "AlignmentSuggestion",
    "BatchRow",
    "Cancelled",
    "Evaluation",
    "ExposureCorrection",
    "ExposureSuggestion",
    "FileReport",
    "FileStack",
    "FocusRange",
    "FusionConfig",
    "FusionProgress",
    "FusionResult",
    "Group",
    "HeightMap",
    "HeightRequest",
    "ImageFile",
    "ImageMetadata",
    "InvalidConfigError",
    "InvalidImageError",
    "LazyFusion",
    "QmcifError",
    "RetouchedWindow",
    "SlabLayout",
    "Stack",
    "StackView",
    "SyntheticStack",
    "Transforms",
    "Window",
    "WrittenImage",
    "evaluate",
    "find_groups",
    "find_record",
    "focus_response",
    "fuse",
    "fuse_in_slabs",
    "fuse_lazily",
    "fuse_to_file",
    "hear_of_compilation",
    "height_map",
    "load_transforms",
    "make_focus_stack",
    "make_lazy_focus_stack",
    "open_stack",
    "open_written",
    "prepare_stack",
    "read_image",
    "retouch",
    "run_batch",
    "save_transforms",
    "setting_fields",
    "stack_to_dask",
    "suggest_alignment",
    "suggest_even_exposure",
    "write_image",
    "write_stack",
]

_MODULE_OF = {
    "AlignmentSuggestion": "stack.alignment.suggestion",
    "BatchRow": "batch",
    "Cancelled": "errors",
    "Evaluation": "metrics.evaluation",
    "ExposureCorrection": "stack.exposure",
    "ExposureSuggestion": "stack.exposure_suggestion",
    "FileReport": "fusing.to_file",
    "FileStack": "io.input.file_stack",
    "FocusRange": "stack.samples",
    "FusionConfig": "config.fusion_config",
    "FusionProgress": "run.steps",
    "FusionResult": "fusing.in_memory",
    "Group": "batch",
    "HeightMap": "depth",
    "HeightRequest": "depth",
    "ImageFile": "io.input.image_file",
    "InvalidConfigError": "errors",
    "InvalidImageError": "errors",
    "LazyFusion": "fusing.lazy",
    "OUTPUT_MAPS": "tiles.output_maps",
    "PRESETS": "config.presets",
    "ImageMetadata": "stack.image_metadata",
    "QmcifError": "errors",
    "RetouchedWindow": "retouching",
    "SlabLayout": "slabs",
    "Stack": "stack.stack",
    "StackView": "stack.stack",
    "SyntheticStack": "stack.synthetic",
    "Transforms": "stack.alignment.transforms",
    "Window": "stack.window",
    "WrittenImage": "io.input.written_image",
    "evaluate": "metrics",
    "find_groups": "batch",
    "find_record": "io.input.written_image",
    "focus_response": "tiles.focus_response",
    "fuse": "fusing.in_memory",
    "fuse_in_slabs": "slabs",
    "fuse_lazily": "fusing.lazy",
    "fuse_to_file": "fusing.to_file",
    "hear_of_compilation": "kernels.compilation_notice",
    "height_map": "depth",
    "load_transforms": "io.output.transform_files",
    "make_focus_stack": "stack.synthetic",
    "make_lazy_focus_stack": "stack.synthetic_lazy",
    "open_stack": "io.input.stack_input",
    "open_written": "io.input.written_image",
    "prepare_stack": "stack.preparation",
    "read_image": "io.input.readers",
    "retouch": "retouching",
    "run_batch": "batch",
    "save_transforms": "io.output.transform_files",
    "setting_fields": "config.fusion_config",
    "stack_to_dask": "io.input.lazy_stack",
    "suggest_alignment": "stack.alignment.suggestion",
    "suggest_even_exposure": "stack.exposure_suggestion",
    "write_image": "io.output.writers",
    "write_stack": "run.stack_output",
}

if not TYPE_CHECKING:  # a type checker would take any name for granted

    def __getattr__(name: str) -> object:
        """Import a public name on first use and keep it."""
        if name not in _MODULE_OF:
            msg = f"module {__name__!r} has no attribute {name!r}; its public names are: {', '.join(__all__)}"
            raise AttributeError(msg)
        value: object = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
