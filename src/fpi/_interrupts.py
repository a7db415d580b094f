"""Ctrl-C that waits until nothing is half done.

Python raises KeyboardInterrupt between any two instructions of the main thread. In numba's own Python code that breaks
its tables for the rest of the process, and at the end of an episode it would part data from what belongs to them. So
within `held` Ctrl-C is only noted, and its handler is called at the next safe point: there KeyboardInterrupt is raised,
or whatever a handler of the user's own does is done.

Ctrl-C twice within a second ends the process there and then, in order: files are whole, since they are replaced whole.
It does not in interactive sessions, whose memory is dear, nor where the user has a handler.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Self

TWICE = 1.0  # seconds between two presses that end the process

Handler = Callable[[int, FrameType | None], Any]


class Held:
    """`with held:` in the main thread. Other threads never see Ctrl-C, and are not concerned."""

    def __init__(self) -> None:
        self._depth = 0
        self._watched = 0
        self._handler: Handler = signal.default_int_handler
        self._pressed: list[FrameType | None] = []
        self._last = -TWICE
        self._noting: Handler = self._note  # one object, to be recognised

    def __enter__(self) -> Self:
        if _in_main_thread():
            if self._depth == self._watched == 0:
                self._note_from_now_on()
            self._depth += 1  # last: whatever goes wrong before, Ctrl-C works as it did
        return self

    def __exit__(self, *_: object) -> None:
        if _in_main_thread():
            self._depth -= 1
            if self._depth == 0:
                self._leave()
                self._tell()

    @contextmanager
    def often(self) -> Iterator[None]:
        """Within, `with held` costs next to nothing: the handler is exchanged here, and not every time."""
        main = _in_main_thread()
        if main:
            self._note_from_now_on()
            self._watched += 1
        try:
            yield
        finally:
            if main:
                self._watched -= 1
                self._leave()

    def _leave(self) -> None:
        if self._depth == self._watched == 0 and signal.getsignal(signal.SIGINT) is self._noting:
            signal.signal(signal.SIGINT, self._handler)

    @property
    def pressed(self) -> bool:
        """Whether a Ctrl-C waits for `safe_point`."""
        return bool(self._pressed) and self._depth == 1 and _in_main_thread()

    def safe_point(self) -> None:
        """Nothing is half done here: call the handler, if Ctrl-C was pressed. If it returns, all goes on."""
        if self.pressed:
            try:
                self._tell()
            finally:
                self._note_from_now_on()  # it may have chosen another handler for the next one

    def _note_from_now_on(self) -> None:
        current = signal.getsignal(signal.SIGINT)
        if callable(current) and current is not self._noting:  # else Ctrl-C is ignored, or ends the process by itself
            self._handler = current
            signal.signal(signal.SIGINT, self._noting)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self._depth:
            self._leave()  # if it is in place only because the handler of another signal had raised
            self._handler(number, frame)
            if self._watched:
                self._note_from_now_on()
        elif getattr(self._handler, "never_raises", False):
            self._handler(number, frame)
            self._note_from_now_on()
        else:
            self._end_if_twice()
            self._pressed.append(frame)

    def _tell(self) -> None:
        pressed, self._pressed = self._pressed, []  # if the handler raises, that stands for all of them
        for frame in pressed:
            self._handler(signal.SIGINT, frame)

    def _end_if_twice(self) -> None:
        before, self._last = self._last, time.monotonic()
        hurried = self._last - before < TWICE and self._pressed
        if hurried and self._handler is signal.default_int_handler and not hasattr(sys, "ps1"):
            with suppress(AttributeError, OSError, ValueError):  # streams may be missing, closed or full
                sys.stdout.flush()
                os.write(
                    2, b"\nStopped by Ctrl-C twice within a second. Files are whole, what was not saved is lost.\n"
                )
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.raise_signal(signal.SIGINT)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


held = Held()


def never_raises(handler: Handler) -> Handler:
    """Mark a handler of SIGINT that only takes note itself: it is called at once, wherever Ctrl-C comes."""
    handler.never_raises = True  # type: ignore[attr-defined]
    return handler


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
