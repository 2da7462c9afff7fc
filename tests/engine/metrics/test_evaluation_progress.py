"""Steps are counted and told."""

from __future__ import annotations

from qmcif_engine.metrics.evaluation_progress import EvaluationProgress, StepCounter, ignore_step


def test_listener_hears_every_step_with_count_and_metric():
    heard = []
    counter = StepCounter(2, heard.append)

    counter.finish_step("gradient")
    counter.finish_step("contrast")

    assert heard == [EvaluationProgress(1, 2, "gradient"), EvaluationProgress(2, 2, "contrast")]


def test_nobody_needs_to_listen():
    StepCounter(1, None).finish_step("gradient")
    assert ignore_step() is None
