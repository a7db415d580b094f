"""How far the answers of function classes lie above the truth.

The truth is sought by brute force: SLSQP from many starts. What that finds is a lower bound, so an answer is safe if no
ratio falls below 1 (but for rounding), and exact if none rises above it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from benchmarks import tables
from fpi.function_classes import Aggregation, GeneralizedLinear, LinearBall
from fpi.function_classes.base import FloatArray

STARTS = 8
SHRINKS = (0.0, 1e-9, 1e-8, 1e-7, 1e-6)  # SLSQP oversteps a little: towards the middle by such a share


@dataclass
class Instance:
    """A dataset of a parametric class, one more row, and the functions of the class as plain NumPy."""

    function_class: Any
    rows: FloatArray
    targets: FloatArray
    query: FloatArray
    value: Callable[[FloatArray, FloatArray], FloatArray]
    """The values at some rows of the function with some parameters."""
    inside: Callable[[FloatArray], FloatArray]
    """At least 0 if the parameters are allowed."""
    parameters: Callable[[], FloatArray]
    """Random ones to start from."""
    epsilon: float
    beta: float

    def __post_init__(self) -> None:
        self.prefixes = self.function_class.prefixes(self.epsilon, lambda k: self.beta)
        for row, target in zip(self.rows, self.targets, strict=True):
            self.prefixes.append(row, target)
        self.fitted = self.prefixes.theta(len(self.rows))

    def loss(self, theta: FloatArray) -> float:
        return float(((self.value(self.rows, theta) - self.targets) ** 2).sum())

    def estimates(self) -> tuple[float, float]:
        """The loss of the least-squares function, and of the best that was found."""
        allowed = {"type": "ineq", "fun": self.inside}
        found = [minimize(self.loss, self.parameters(), constraints=allowed, tol=1e-12).x for _ in range(STARTS)]
        inside = [self._into(theta, 0.9 * self.fitted, self.inside) for theta in found]
        return self.loss(self.fitted), min(self.loss(theta) for theta in inside if theta is not None)

    @staticmethod
    def _into(point: FloatArray, middle: FloatArray, slack: Callable[[FloatArray], FloatArray]) -> FloatArray | None:
        """The point, moved towards the middle until it is allowed; None if that takes more than a little."""
        for share in SHRINKS:
            moved = point + share * (middle - point)
            if slack(moved).min() >= 0:
                return moved
        return None

    def widths(self) -> tuple[float, float]:
        centre = self.value(self.rows, self.fitted)
        answer = self.prefixes.widths(self.query, len(self.rows))[0]
        return answer, self._most_apart(
            lambda f, g: np.array([((f - centre) ** 2).sum(), ((g - centre) ** 2).sum()]) / self.beta
        )

    def dependent(self) -> tuple[float, float]:
        answer = self.prefixes.differences(self.query, len(self.rows))[0]
        return answer, self._most_apart(lambda f, g: np.array([((f - g) ** 2).sum()]) / self.epsilon**2)

    def _most_apart(self, used: Callable[[FloatArray, FloatArray], FloatArray]) -> float:
        """How far two functions were found to differ at the query, using at most a share of 1 of what is allowed."""
        half = len(self.parameters())

        def closeness(both: FloatArray) -> float:
            f, g = self.value(self.query, both[:half]), self.value(self.query, both[half:])
            return float(g[0] - f[0])

        def slack(both: FloatArray) -> FloatArray:
            f, g = both[:half], both[half:]
            shares = used(self.value(self.rows, f), self.value(self.rows, g))
            return np.concatenate([1 - shares, self.inside(f), self.inside(g)])

        middle = np.concatenate([self.fitted, self.fitted])
        most = 0.0
        for _ in range(STARTS):
            start = np.concatenate([self.parameters(), self.parameters()])
            found = minimize(
                closeness, start, constraints={"type": "ineq", "fun": slack}, tol=1e-11, options={"maxiter": 50}
            )
            allowed = self._into(found.x, middle, slack)
            if allowed is not None:
                most = max(most, -closeness(allowed))
        return most


def ball(logistic: bool, rng: np.random.Generator) -> Instance:
    dim, count = int(rng.integers(1, 4)), int(rng.integers(4, 10))
    radius = float(rng.uniform(0.5, 2))
    rows = rng.normal(size=(count + 1, dim))
    rows *= rng.uniform(0.2, 1, (count + 1, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    kind: Any = GeneralizedLinear if logistic else LinearBall
    function_class = kind(lambda observation: rows[:1], actions=1, radius=radius, max_value=1.0)
    function_class.rows(None, 0)  # shows the number of features
    return Instance(
        function_class,
        rows[:count],
        rng.random(count),
        rows[count:],
        value=lambda at, theta: expit(at @ theta) if logistic else at @ theta,
        inside=lambda theta: np.array([1 - theta @ theta / radius**2]),
        parameters=lambda: radius * rng.uniform(-1, 1, dim) / np.sqrt(dim),
        epsilon=2.0 ** -int(rng.integers(1, 4)),
        beta=float(rng.uniform(0.05, 1)),
    )


def cells(rng: np.random.Generator) -> Instance:
    number, count = int(rng.integers(1, 4)), int(rng.integers(4, 10))
    rows = rng.integers(number, size=(count + 1, 1)).astype(np.float64)
    return Instance(
        Aggregation(lambda observation, stage: rows[:1, 0], cells=number, actions=1, max_value=1.0),
        rows[:count],
        rng.random(count),
        rows[count:],
        value=lambda at, values: values[at[:, 0].astype(int)],
        inside=lambda values: np.concatenate([values, 1 - values]),
        parameters=lambda: rng.random(number),
        epsilon=2.0 ** -int(rng.integers(1, 4)),
        beta=float(rng.uniform(0.05, 1)),
    )


KINDS: dict[Any, Callable[[np.random.Generator], Instance]] = {
    LinearBall: lambda rng: ball(False, rng),
    GeneralizedLinear: lambda rng: ball(True, rng),
    Aggregation: cells,
}
QUESTIONS = ("estimates", "widths", "dependent")


def looseness(kind: Any, question: str, instances: int, seed: int) -> FloatArray:
    """Answer / brute force on random instances."""
    rng = np.random.default_rng(seed)
    pairs = np.array([getattr(KINDS[kind](rng), question)() for _ in range(instances)])
    ratios: FloatArray = pairs[:, 0] / pairs[:, 1]
    return ratios


def table(instances: int = 40, seed: int = 0) -> Iterator[str]:
    """A row for every class and question, over so many random datasets."""
    yield from tables.head("class", "question", "says", "smallest answer / brute force", "median", "largest")
    for kind, question in itertools.product(KINDS, QUESTIONS):
        seen = looseness(kind, question, instances, seed)
        figures = (f"{each:.6f}" for each in (seen.min(), np.median(seen), seen.max()))
        yield tables.row(kind.__name__, question, kind.exact[question], *figures)
