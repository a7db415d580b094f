"""The errors of fpi. Each text says what happened, why it matters, and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager


class FpiError(Exception):
    """Base of every error raised on purpose by fpi."""


class InputError(FpiError, ValueError):
    """An argument has a value or a shape that cannot be used."""


class EnvironmentMismatch(FpiError, ValueError):
    """The environment does not fit the agent, or does something the theory excludes."""


class ModelFileError(FpiError, ValueError):
    """A model file is damaged, written by a newer version, not an fpi file, or incompatible with the arguments."""


class DamagedResults(InputError):
    """A folder of results holds a file that fpi did not write, or not the whole of it. Nothing in it was changed."""


class SaveError(FpiError, OSError):
    """A file could not be written; what stood there before is intact."""


class MissingExtra(FpiError, ImportError):
    """An optional dependency is not installed."""


@contextmanager
def importing(extra: str, who_needs_what: str) -> Iterator[None]:
    """Where an import fails, say which extra of fpi brings it."""
    try:
        yield
    except ImportError as error:
        raise MissingExtra(
            f'{who_needs_what}, which is not installed: pip install "frozen-policy-iteration[{extra}]".'
        ) from error


class NondeterminismWarning(UserWarning):
    """The same start and the same actions gave another trajectory."""


class CoverageWarning(UserWarning):
    """Everything is covered before there are any data, so nothing will be learned."""


class CheckFailed(FpiError, AssertionError):
    """An agent broke a promise that `fpi.check_agent` looks at."""
