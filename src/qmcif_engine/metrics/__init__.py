"""Metrics of a fused image: six against its sources, and four figures against the truth where it is known."""

from __future__ import annotations

from .evaluation import Evaluation, evaluate
from .evaluation_progress import EvaluationProgress

__all__ = ["Evaluation", "EvaluationProgress", "evaluate"]
