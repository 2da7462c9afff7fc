"""Decomposition of one image into base, detail and noise: QFED, section III-B.1 of the paper."""

from __future__ import annotations

from qmcif_engine.method.decomposition.solver import Decomposition, History, IterationRecord, StopReason, decompose

__all__ = ["Decomposition", "History", "IterationRecord", "StopReason", "decompose"]
