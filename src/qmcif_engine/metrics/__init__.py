"""Metrics of a fused image: six against its sources, and four figures against the truth where it is known.

"Specification" in these modules is a description, section by section, of the reference: the MATLAB toolbox of Liu et al. (repository
yuliu316316/MFIF), whose values are the ones that papers print. 0 is what all metrics share, 1 Q_MI, 2 Q_G, 3 Q_P, 4 Q_E, 5 Q_Y, 6 Q_CB.
"""

from __future__ import annotations

from .blocks import EvaluationProgress
from .evaluation import Evaluation, evaluate

__all__ = ["Evaluation", "EvaluationProgress", "evaluate"]
