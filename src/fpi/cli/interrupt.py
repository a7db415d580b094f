"""Ctrl-C that waits for a consistent state."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fpi._interrupts import never_raises


@contextmanager
def interruptible(when: str) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed.

    The first Ctrl-C asks to stop at the next point where all files agree, described by `when`; a second stops at once.
    """
    asked = False

    @never_raises
    def ask(*_: Any) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        text = f"\nStopping {when}; Ctrl-C again stops at once.\n"
        os.write(2, text.encode())  # print may be interrupted itself

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)
