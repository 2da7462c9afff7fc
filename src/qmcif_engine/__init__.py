"""Focus stacking: many images of one scene fused into one that is sharp everywhere.

The names in ``__all__`` are the public contract, together with the types they take and return. Each is imported when first used, so that
``qmcif --help`` starts at once.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

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

_NAMES = {
    "compiled": "CompilationListener",
    "config.fusion_config": "FusionConfig PRESETS",
    "depth": "HeightMap HeightRequest height_map",
    "errors": "Cancelled InvalidConfigError InvalidImageError QmcifError",
    "pipeline.batch": "BatchRow Group find_groups run_batch",
    "pipeline.file_run": "FileReport",
    "pipeline.in_memory": "FusionResult fuse",
    "pipeline.inspection": "decompose focus_response",
    "pipeline.lazy": "LazyFusion fuse_lazily",
    "pipeline.outputs": "SlabLayout",
    "pipeline.to_file": "fuse_in_slabs fuse_to_file",
    "io.input.file_stack": "FileStack",
    "io.input.image_file": "ImageFile",
    "io.input.open": "open_stack read_image",
    "io.input.written_image": "WrittenImage",
    "io.output.formats": "write_image",
    "io.output.stack_output": "write_stack",
    "io.output.transform_files": "load_transforms save_transforms",
    "method.solver": "Decomposition",
    "metrics": "evaluate",
    "metrics.evaluation": "Evaluation",
    "retouching": "RetouchedWindow retouch",
    "run.execution": "FusionProgress connect_to_scheduler",
    "stack.alignment.suggestion": "AlignmentSuggestion suggest_alignment",
    "stack.alignment.transforms": "Transforms",
    "stack.exposure": "ExposureCorrection ExposureSuggestion suggest_even_exposure",
    "stack.image_metadata": "ImageMetadata",
    "stack.preparation": "prepare_stack",
    "stack.samples": "FocusRange",
    "stack.stack": "Stack",
    "stack.synthetic": "SyntheticStack make_focus_stack",
    "stack.synthetic_lazy": "make_lazy_focus_stack",
    "stack.window": "Window",
    "tiles.output_maps": "OUTPUT_MAPS",
}
"""The public names and types by the module that defines them; ``__init__.pyi`` has them for type checkers."""

_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import a public name on first use, and keep it (PEP 562)."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}; its public names are: {', '.join(sorted(_HOMES))}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
