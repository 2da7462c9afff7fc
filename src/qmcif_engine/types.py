"""Types that the public functions take, return or write: for annotations, to build arguments, to open results, or to derive a stack from.

`CompilationListener` is there for those who wait for a first run. They are imported when first used, as the functions are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qmcif_engine import import_lazily

if TYPE_CHECKING:
    from qmcif_engine.compiled import CompilationListener
    from qmcif_engine.depth import HeightMap, HeightRequest
    from qmcif_engine.fusing.batch import BatchRow, Group
    from qmcif_engine.fusing.in_memory import FusionResult
    from qmcif_engine.fusing.lazy import LazyFusion
    from qmcif_engine.fusing.to_file import FileReport
    from qmcif_engine.io.input.file_stack import FileStack
    from qmcif_engine.io.input.image_file import ImageFile
    from qmcif_engine.io.input.written_image import WrittenImage
    from qmcif_engine.method.solver import Decomposition
    from qmcif_engine.metrics.evaluation import Evaluation
    from qmcif_engine.retouching import RetouchedWindow
    from qmcif_engine.run.steps import FusionProgress
    from qmcif_engine.slabs import SlabLayout
    from qmcif_engine.stack.alignment.suggestion import AlignmentSuggestion
    from qmcif_engine.stack.alignment.transforms import Transforms
    from qmcif_engine.stack.exposure import ExposureCorrection, ExposureSuggestion
    from qmcif_engine.stack.image_metadata import ImageMetadata
    from qmcif_engine.stack.samples import FocusRange
    from qmcif_engine.stack.stack import Stack, StackView
    from qmcif_engine.stack.synthetic import SyntheticStack
    from qmcif_engine.stack.window import Window

__all__ = [
    "AlignmentSuggestion",
    "BatchRow",
    "CompilationListener",
    "Decomposition",
    "Evaluation",
    "ExposureCorrection",
    "ExposureSuggestion",
    "FileReport",
    "FileStack",
    "FocusRange",
    "FusionProgress",
    "FusionResult",
    "Group",
    "HeightMap",
    "HeightRequest",
    "ImageFile",
    "ImageMetadata",
    "LazyFusion",
    "RetouchedWindow",
    "SlabLayout",
    "Stack",
    "StackView",
    "SyntheticStack",
    "Transforms",
    "Window",
    "WrittenImage",
]

_MODULE_OF = {
    "AlignmentSuggestion": "stack.alignment.suggestion",
    "BatchRow": "fusing.batch",
    "CompilationListener": "compiled",
    "Decomposition": "method.solver",
    "Evaluation": "metrics.evaluation",
    "ExposureCorrection": "stack.exposure",
    "ExposureSuggestion": "stack.exposure",
    "FileReport": "fusing.to_file",
    "FileStack": "io.input.file_stack",
    "FocusRange": "stack.samples",
    "FusionProgress": "run.steps",
    "FusionResult": "fusing.in_memory",
    "Group": "fusing.batch",
    "HeightMap": "depth",
    "HeightRequest": "depth",
    "ImageFile": "io.input.image_file",
    "ImageMetadata": "stack.image_metadata",
    "LazyFusion": "fusing.lazy",
    "RetouchedWindow": "retouching",
    "SlabLayout": "slabs",
    "Stack": "stack.stack",
    "StackView": "stack.stack",
    "SyntheticStack": "stack.synthetic",
    "Transforms": "stack.alignment.transforms",
    "Window": "stack.window",
    "WrittenImage": "io.input.written_image",
}

if not TYPE_CHECKING:  # a type checker would take any name for granted
    __getattr__, __dir__ = import_lazily(__name__, _MODULE_OF)
