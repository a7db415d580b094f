"""Checks of numbers that people pass. What does not fit is an InputError; what fits comes back as a plain number."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from numbers import Integral, Rational, Real
from typing import Any

from fpi.errors import InputError

LARGEST = 1e300  # far beyond any use; sums of a few stay finite


def is_whole(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


def is_real(number: Any) -> bool:
    """Whether it is a number, finite and not absurdly large."""
    floating = isinstance(number, Real) and not isinstance(number, Rational)  # Python's and NumPy's
    return (floating or is_whole(number)) and bool(abs(number) <= LARGEST)  # false for NaN too


def shown(value: Any) -> str:
    """A value in an error text."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write out numbers of thousands of digits
        return f"a very large {type(value).__name__}"
    return text if len(text) <= 200 else f"{text[:197]}..."


def counted(number: int, noun: str) -> str:
    """As in "1 seed", "5 seeds"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint at the known name that is spelled most like this one, by its last part; empty if none is."""
    by_last_part = {each.rpartition(".")[2]: each for each in known}
    close = difflib.get_close_matches(name, by_last_part, n=1, cutoff=0.7)
    return f" Did you mean {by_last_part[close[0]]}?" if close else ""


def check_whole(name: str, number: Any, least: int = 0, bits: int = 63) -> int:
    """A whole number from `least` to 2**bits - 1."""
    if is_whole(number) and least <= number < 2**bits:
        return int(number)
    wanted = f"below 2**{bits}" if is_whole(number) and number > least else f"of at least {least}"
    raise InputError(f"{name} is {shown(number)}; pass a whole number {wanted}.")


def check_real(name: str, number: Any, wanted: str, fits: Callable[[float], bool]) -> float:
    """A number that fits; `wanted` says in words which do."""
    if not (is_real(number) and fits(number)):
        raise InputError(f"{name} is {shown(number)}; pass {wanted}.")
    return float(number)


def check_positive(name: str, number: Any) -> float:
    return check_real(name, number, "a finite number above 0", lambda x: x > 0)
