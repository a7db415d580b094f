"""The progress bar of a learner."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Protocol


class HasData(Protocol):
    @property
    def data_stored(self) -> int: ...


Tick = Callable[[int, float, int, int], None]
"""Episodes that were played, and in all of them together: return, steps, decisions at covered states."""


@contextlib.contextmanager
def bar(learner: HasData, episodes: int) -> Iterator[Tick]:
    """A progress bar, redrawn a few times a second; nothing at all for 0 episodes."""
    if episodes == 0:
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        BarColumn(bar_width=12),  # the rest is what people read, also on 80 columns
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]:,.0f} episodes/s"),
        TextColumn("return {task.fields[mean]:.1f}"),
        TextColumn("{task.fields[data]:,} data"),
        TextColumn("{task.fields[covered]:.0%} covered"),
        TimeRemainingColumn(),
    )
    with Progress(*columns) as shown:
        task = shown.add_task("learning", total=episodes, speed=0.0, mean=0.0, data=0, covered=0.0)
        began = drawn = time.perf_counter()
        done = 0.0
        recent = [0.0] * 4

        def tick(*more: float) -> None:
            nonlocal drawn, done
            recent[:] = map(sum, zip(recent, more, strict=True))
            count, ret, steps, covered = recent
            now = time.perf_counter()
            if count and (now - drawn > 0.2 or done + count == episodes):
                done += count
                drawn = now
                shown.update(
                    task,
                    completed=done,
                    speed=done / max(now - began, 1e-9),
                    mean=ret / count,
                    data=learner.data_stored,
                    covered=covered / steps,
                )
                recent[:] = [0.0] * 4

        yield tick
