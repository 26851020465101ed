"""Scaler: computes how many workers should run, from the rates of arrival and completion (JB-36).

``decide`` is pure: it gets a sample with its time and returns the number of workers. Rates are averages over a window.
The scaler adds a worker if tasks wait and arrivals clearly exceed completions. It removes a worker after a time in
which few tasks wait. In all other cases, and during a cool-down after a change, it changes nothing, so that the number
does not oscillate. If the scaler dies, its workers go on.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

__all__ = ["Sample", "Scaler", "ScalerOptions"]


@dataclass(frozen=True, slots=True)
class ScalerOptions:
    """Options of a scaler. ``more_at``: ratio of arrivals to completions that adds a worker. ``waiting_min``: waiting
    tasks per worker.
    """

    workers_min: int
    workers_max: int
    more_at: float = 1.2
    waiting_min: int = 2
    window_seconds: float = 10.0
    cool_down_seconds: float = 5.0
    idle_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.workers_min <= self.workers_max or self.workers_max < 1:
            raise ValueError("0 <= min <= max, and max is at least 1")


@dataclass(frozen=True, slots=True)
class Sample:
    """Total numbers of arrived and completed tasks, and the number that waits now."""

    at: float
    arrived: int
    completed: int
    waiting: int


class Scaler:
    """Keep the samples of the window. Times are monotonic seconds."""

    def __init__(self, options: ScalerOptions) -> None:
        self.workers = options.workers_min
        self._options = options
        self._samples: deque[Sample] = deque()
        self._changed_at = float("-inf")
        self._idle_since: float | None = None

    def decide(self, sample: Sample) -> int:
        """Return the number of workers that should run from now on."""
        options = self._options
        self._samples.append(sample)
        while len(self._samples) > 2 and sample.at - self._samples[0].at > options.window_seconds:
            self._samples.popleft()
        self._idle_since = (self._idle_since or sample.at) if self._is_idle(sample) else None
        if sample.at - self._changed_at < options.cool_down_seconds:
            return self.workers
        if self._wants_more(sample):
            self._change(min(self.workers + 1, options.workers_max), sample.at)
        elif self._idle_since is not None and sample.at - self._idle_since >= options.idle_seconds:
            self._change(max(self.workers - 1, options.workers_min), sample.at)
        return self.workers

    def _wants_more(self, sample: Sample) -> bool:
        if sample.waiting and not self.workers:
            return True
        first = self._samples[0]
        arrived, completed = sample.arrived - first.arrived, sample.completed - first.completed
        backlog = sample.waiting > self._options.waiting_min * self.workers
        grows = arrived > self._options.more_at * completed or sample.waiting >= first.waiting
        return backlog and grows

    def _is_idle(self, sample: Sample) -> bool:
        """Return whether one worker can go: few tasks wait, and their number does not grow."""
        return sample.waiting < max(self.workers, 1) and sample.waiting <= self._samples[0].waiting + 1

    def _change(self, workers: int, at: float) -> None:
        if workers != self.workers:
            self.workers, self._changed_at, self._idle_since = workers, at, None
