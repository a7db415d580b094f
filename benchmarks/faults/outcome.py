"""What was tried, and what of it held."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fpi.errors import FpiError

SHOWN = 3  # troubles of each kind


@dataclass
class Outcome:
    """A line of the table."""

    what: str
    tried: int = 0
    troubles: list[str] = field(default_factory=list)
    """One for everything that did not hold, in words."""

    def note(self, trouble: str | None) -> None:
        """Count one more try; None if it held."""
        self.tried += 1
        if trouble is not None:
            self.troubles.append(trouble)

    @property
    def held(self) -> int:
        return self.tried - len(self.troubles)


def trouble_of(call: Callable[[], Any]) -> str | None:
    """None if a call succeeds or raises one of the errors of fpi with a text, else what it raised."""
    try:
        call()
    except FpiError as error:
        return None if str(error).strip() else f"{type(error).__name__} without a text"
    except BaseException as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None
