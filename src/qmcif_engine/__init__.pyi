# The public names for type checkers: what the table in __init__.py says.

# isort: off
from qmcif_engine.compiled import CompilationListener as CompilationListener
from qmcif_engine.config.fusion_config import FusionConfig as FusionConfig, PRESETS as PRESETS
from qmcif_engine.depth import HeightMap as HeightMap, HeightRequest as HeightRequest, height_map as height_map
from qmcif_engine.errors import (
    Cancelled as Cancelled,
    InvalidConfigError as InvalidConfigError,
    InvalidImageError as InvalidImageError,
    QmcifError as QmcifError,
)
from qmcif_engine.pipeline.batch import BatchRow as BatchRow, Group as Group, find_groups as find_groups, run_batch as run_batch
from qmcif_engine.pipeline.file_run import FileReport as FileReport
from qmcif_engine.pipeline.in_memory import FusionResult as FusionResult, fuse as fuse
from qmcif_engine.pipeline.inspection import decompose as decompose, focus_response as focus_response
from qmcif_engine.pipeline.lazy import LazyFusion as LazyFusion, fuse_lazily as fuse_lazily
from qmcif_engine.pipeline.outputs import SlabLayout as SlabLayout
from qmcif_engine.pipeline.to_file import fuse_in_slabs as fuse_in_slabs, fuse_to_file as fuse_to_file
from qmcif_engine.io.input.file_stack import FileStack as FileStack
from qmcif_engine.io.input.image_file import ImageFile as ImageFile
from qmcif_engine.io.input.open import read_image as read_image, open_stack as open_stack
from qmcif_engine.io.input.written_image import WrittenImage as WrittenImage
from qmcif_engine.io.output.formats import write_image as write_image
from qmcif_engine.io.output.stack_output import write_stack as write_stack
from qmcif_engine.io.output.transform_files import load_transforms as load_transforms, save_transforms as save_transforms
from qmcif_engine.method.solver import Decomposition as Decomposition
from qmcif_engine.metrics import evaluate as evaluate
from qmcif_engine.metrics.evaluation import Evaluation as Evaluation
from qmcif_engine.retouching import RetouchedWindow as RetouchedWindow, retouch as retouch
from qmcif_engine.run.execution import FusionProgress as FusionProgress, connect_to_scheduler as connect_to_scheduler
from qmcif_engine.stack.alignment.suggestion import AlignmentSuggestion as AlignmentSuggestion, suggest_alignment as suggest_alignment
from qmcif_engine.stack.alignment.transforms import Transforms as Transforms
from qmcif_engine.stack.exposure import (
    ExposureCorrection as ExposureCorrection,
    ExposureSuggestion as ExposureSuggestion,
    suggest_even_exposure as suggest_even_exposure,
)
from qmcif_engine.stack.image_metadata import ImageMetadata as ImageMetadata
from qmcif_engine.stack.preparation import prepare_stack as prepare_stack
from qmcif_engine.stack.samples import FocusRange as FocusRange
from qmcif_engine.stack.stack import Stack as Stack
from qmcif_engine.stack.synthetic import SyntheticStack as SyntheticStack, make_focus_stack as make_focus_stack
from qmcif_engine.stack.synthetic_lazy import make_lazy_focus_stack as make_lazy_focus_stack
from qmcif_engine.stack.window import Window as Window
from qmcif_engine.tiles.output_maps import OUTPUT_MAPS as OUTPUT_MAPS
# isort: on

__version__: str
__all__: list[str]
