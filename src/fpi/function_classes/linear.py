"""Classes with a parameter in a ball: linear functions, and monotone functions of linear ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from fpi._validation import check_positive, check_whole
from fpi.errors import InputError
from fpi.features import FeatureMap, as_feature_map, optional_methods
from fpi.function_classes import _kernels
from fpi.function_classes.base import EXACT, TOLERANCE, BoolArray, FloatArray, OrderedData, check_values
from fpi.function_classes.confidence import most_gains

MOST_DIM = 256
STEPS = 200
CONVERGED = 1e-14
NUDGE = 1e-6

Features = FeatureMap | Callable[..., Any]
Link = Callable[[FloatArray], FloatArray]


class _Ball:
    """Functions link(<phi, theta>) with |theta| <= radius and |phi| <= 1, and slopes of the link between two bounds."""

    widest: float
    """No two functions differ by more."""
    slopes: tuple[float, float]

    def __init__(
        self,
        features: Features,
        *,
        radius: float,
        max_value: float,
        min_value: float = 0.0,
        actions: int | None = None,
    ) -> None:
        if actions is None:
            if not isinstance(features, FeatureMap):
                raise InputError("a plain feature function does not say how many actions there are: pass actions=.")
            actions = features.actions
        self.features = as_feature_map(features, actions)
        self.actions = check_whole("actions", actions, least=1)
        self.radius = check_positive("radius", radius)
        self.min_value, self.max_value = check_values(min_value, max_value)
        self._methods = optional_methods(self.features)
        if self._methods.key is not None:
            self.key = self._methods.key

    def rows(self, observation: Any, stage: int) -> FloatArray:
        """The features."""
        return self.features(observation, stage)

    @property
    def dim(self) -> int:
        """How many features; an InputError before they were called for the first time."""
        if self.features.dim < 1:
            raise InputError("the features have not been called yet, so their number is not known: call `rows` once.")
        if self.features.dim > MOST_DIM:
            raise InputError(
                f"{self.features.dim:,} features are more than the {MOST_DIM} that this class is made for: it keeps a "
                "square matrix for every datum. Use fewer features, or the linear agents fpi.PAC and fpi.Regret."
            )
        return self.features.dim

    def log_covering(self, radius: float) -> float:
        """d ln(1 + 2 L B / radius), L the highest slope and B the radius of the ball."""
        return self.dim * math.log1p(2 * self.slopes[1] * self.radius / check_positive("radius", radius))

    def eluder_bound(self, epsilon: float) -> float:
        """From the determinant that an eluder sequence makes grow."""
        low, high = self.slopes
        return most_gains(self.dim, 0.5 * (low / high) ** 2, (2 * self.radius * low / epsilon) ** 2)

    def most_data(self, epsilon: float, beta: float) -> float:
        """How many data can have had a ridge width above epsilon when they came, at radii of at most beta.

        With beta < epsilon^2 / 4 a datum may also have been stored for not being dependent.
        """
        low, high = self.slopes
        wide = most_gains(self.dim, (epsilon * low / high) ** 2 / (8 * beta), (self.radius * low) ** 2 / beta)
        return wide if 4 * beta >= epsilon**2 else wide + self.eluder_bound(epsilon)

    def prefixes(self, epsilon: float, beta: Callable[[int], float]) -> BallPrefixes:
        """An empty dataset; see `FunctionClass`."""
        return BallPrefixes(self, epsilon, beta)

    def to_config(self) -> dict[str, Any] | None:
        """Over built-in features; else None, and the class must be passed again when loading."""
        if self._methods.to_config is None:
            return None
        described = {"type": type(self).__name__, "features": self._methods.to_config(), "radius": self.radius}
        return described | {"min_value": self.min_value, "max_value": self.max_value}

    def link(self, x: FloatArray) -> FloatArray:
        """g(`x`): what the function is at <phi, theta> = x."""
        raise NotImplementedError

    def fit(self, rows: FloatArray, targets: FloatArray) -> FloatArray:
        """theta of the least-squares function."""
        raise NotImplementedError


class LinearBall(_Ball):
    """F = {<phi(s, a), theta>: |theta| <= radius}, for features of norm at most 1.

    Dependence is exact. Widths are ridge widths, bounds above the true ones. Linear functions do not keep to
    [min_value, max_value]: estimates are clipped to it, the functions of the class are not. Features that are a plain
    function need `actions`.
    """

    exact: ClassVar = EXACT | dict.fromkeys(("widths", "log_covering"), "upper bound")
    widest = math.inf
    slopes = (1.0, 1.0)

    def link(self, x: FloatArray) -> FloatArray:
        return x

    def fit(self, rows: FloatArray, targets: FloatArray) -> FloatArray:
        return _least_squares(rows, targets, self.radius)


class GeneralizedLinear(_Ball):
    """F = {link(<phi(s, a), theta>): |theta| <= radius}, for features of norm at most 1.

    `link` is "logistic", which is 1 / (1 + exp(-x)) laid over [min_value, max_value], or (function, lowest slope,
    highest slope): a function of arrays that rises from at least `min_value` to at most `max_value` on
    [-radius, radius], and bounds of its slope there. Widths and dependence are bounded through the slopes. The estimate
    is the least-squares fit that descent from theta = 0 finds.
    """

    exact: ClassVar = dict.fromkeys(EXACT, "upper bound") | {"estimates": "local minimum"}

    def __init__(
        self,
        features: Features,
        *,
        radius: float,
        link: str | tuple[Link, float, float] = "logistic",
        max_value: float = 1.0,
        min_value: float = 0.0,
        actions: int | None = None,
    ) -> None:
        super().__init__(features, radius=radius, max_value=max_value, min_value=min_value, actions=actions)
        self.widest = self.max_value - self.min_value
        self._function: Link | None = None
        if link == "logistic":
            e = math.exp(-self.radius)
            self.slopes = self.widest * e / (1 + e) ** 2, self.widest / 4
        elif isinstance(link, tuple) and len(link) == 3 and callable(link[0]):
            self._function = link[0]
            self.slopes = check_positive("the lowest slope", link[1]), check_positive("the highest slope", link[2])
            self._check_link()
        else:
            raise InputError(f'link is {link!r}; pass "logistic" or (function, lowest slope, highest slope).')

    def link(self, x: FloatArray) -> FloatArray:
        return self.min_value + self.widest / (1 + np.exp(-x)) if self._function is None else self._function(x)

    def _check_link(self) -> None:
        low, high = self.slopes
        x = np.linspace(-self.radius, self.radius, 1001)
        y = np.asarray(self.link(x), np.float64)
        slopes = np.diff(y) / np.diff(x) if y.shape == x.shape else np.array([np.nan])
        if not ((slopes >= low * (1 - 1e-6)) & (slopes <= high * (1 + 1e-6))).all():  # false for NaN
            raise InputError(
                f"the link must have slopes from {low:g} to {high:g} on [-{self.radius:g}, {self.radius:g}], but has "
                f"{slopes.min():g} to {slopes.max():g}. It maps arrays to arrays of the same shape, and rises."
            )
        if y[0] < self.min_value - TOLERANCE or y[-1] > self.max_value + TOLERANCE:
            raise InputError(
                f"the link goes from {y[0]:g} to {y[-1]:g}, outside of min_value={self.min_value:g} to "
                f"max_value={self.max_value:g}."
            )

    def fit(self, rows: FloatArray, targets: FloatArray) -> FloatArray:
        """Steps of Gauss and Newton, each solved within the ball and halved until the loss falls."""
        theta = np.zeros(rows.shape[1])
        loss = self._loss(theta, rows, targets)
        for _ in range(STEPS):
            x = _times(rows, theta)
            slope = np.clip((self.link(x + NUDGE) - self.link(x - NUDGE)) / (2 * NUDGE), *self.slopes)
            step = _least_squares(slope[:, None] * rows, targets - self.link(x) + slope * x, self.radius) - theta
            share, after = 1.0, math.inf
            while share > CONVERGED and (after := self._loss(theta + share * step, rows, targets)) >= loss:
                share /= 2
            if after >= loss * (1 - CONVERGED):
                break
            theta, loss = theta + share * step, after
        return theta

    def _loss(self, theta: FloatArray, rows: FloatArray, targets: FloatArray) -> float:
        return float(((self.link(_times(rows, theta)) - targets) ** 2).sum())

    def to_config(self) -> dict[str, Any] | None:
        return super().to_config() if self._function is None else None


class BallPrefixes(OrderedData):
    """For every prefix the eigenvalues and eigenvectors of G = sum phi phi': one pass of a query answers for all."""

    def __init__(self, function_class: _Ball, epsilon: float, beta: Callable[[int], float]) -> None:
        dim = function_class.dim
        super().__init__(dim, epsilon, beta)
        self._class = function_class
        self._rows = np.zeros((0, dim))
        self._targets = np.zeros(0)
        self._gram = np.zeros((dim, dim))
        self._values = np.zeros((1, dim))
        self._vectors = np.eye(dim)[None].copy()
        self._betas = np.ones(1)  # in terms of <phi, theta>; any will do where G = 0
        self._thetas: dict[int, FloatArray] = {}

    def append(self, row: FloatArray, target: float) -> None:
        phi, q, radius = self.checked(row, target)
        k = self.length + 1
        radius /= self._class.slopes[0] ** 2
        if k > 1 and radius < self._betas[k - 1]:
            raise InputError(f"beta({k}) is below beta({k - 1}): the search relies on radii that never fall.")
        self.make_room("_rows", "_targets", "_values", "_vectors", "_betas")
        self._rows[k - 1], self._targets[k - 1] = phi, q
        _kernels.add_square(self._gram, phi)
        _kernels.eigen(self._gram.copy(), self._values[k], self._vectors[k])
        self._betas[k] = radius
        self.length = k

    def theta(self, k: int) -> FloatArray:
        """The parameter of the least-squares function."""
        if self.prefix(k) not in self._thetas:
            self._thetas[k] = self._class.fit(self._rows[:k], self._targets[:k])
        return self._thetas[k]

    def estimates(self, rows: FloatArray, k: int) -> FloatArray:
        values = self._class.link(_times(rows, self.theta(k)))
        return np.clip(values, self._class.min_value, self._class.max_value)

    def widths(self, rows: FloatArray, k: int) -> FloatArray:
        k = self.prefix(k)
        prefix = self._values[k], self._vectors[k]
        width = [_kernels.ridge_width(*prefix, row, self._betas[k], self._class.radius) for row in rows]
        return np.minimum(self._class.slopes[1] * np.array(width), self._class.widest)

    def differences(self, rows: FloatArray, k: int) -> FloatArray:
        """At each row, how far functions of F can differ that are epsilon apart on the first k data, or a bound."""
        k = self.prefix(k)
        low, high = self._class.slopes
        prefix = self._values[k], self._vectors[k]
        reach = [_kernels.reach(*prefix, row, self.epsilon / low, self._class.radius) for row in rows]
        return np.minimum(high * np.array(reach), self._class.widest)

    def dependent(self, rows: FloatArray, k: int) -> BoolArray:
        return self.differences(rows, k) <= self.epsilon * (1 + TOLERANCE)

    def first_cover(self, rows: FloatArray, allowed: BoolArray, after: int = 0) -> int | None:
        asked = np.ascontiguousarray(rows[allowed])
        most = self.epsilon * (1 + TOLERANCE)
        within = most / self._class.slopes[1] if self._class.widest > most else math.inf
        k, end = after, self.length + 1
        while True:
            k = _kernels.first_thin(asked, self._values, self._vectors, self._betas, self._class.radius, k, end, within)
            if k == end:
                return None
            if self.dependent(asked, k).all():  # nearly always: a width of epsilon implies it if beta >= epsilon^2 / 4
                return int(k)
            k += 1


def _least_squares(rows: FloatArray, targets: FloatArray, radius: float) -> FloatArray:
    """The shortest theta of the ball that fits best."""
    dim = rows.shape[1]
    values, vectors = np.zeros(dim), np.zeros((dim, dim))
    _kernels.eigen(np.einsum("ij,ik->jk", rows, rows), values, vectors)  # einsum, unlike BLAS, has one order of sums
    theta: FloatArray = _kernels.ball_least_squares(values, vectors, np.einsum("ij,i->j", rows, targets), radius)
    return theta


def _times(rows: FloatArray, theta: FloatArray) -> FloatArray:
    product: FloatArray = np.einsum("ij,j->i", rows, theta)
    return product
