"""Progress of an evaluation; whole-image transforms of large images take minutes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class EvaluationProgress:
    """How many of the steps of an evaluation are done, and which metric the last one belonged to."""

    done: int
    total: int
    metric: str


class StepCounter:
    """A count of finished steps, told to a listener; an error raised by the listener ends the evaluation."""

    def __init__(self, total: int, listener: Callable[[EvaluationProgress], None] | None) -> None:
        """Start at 0 of `total` steps."""
        self._done = 0
        self._total = total
        self._listener = listener

    def finish_step(self, metric: str) -> None:
        """Count one more step of the named metric."""
        self._done += 1
        if self._listener is not None:
            self._listener(EvaluationProgress(self._done, self._total, metric))


def ignore_step() -> None:
    """Take the place of a step callback where nobody listens."""
