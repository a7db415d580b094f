"""Algorithm 2 (FPI-Regret) of the paper, line by line and slow: the reference `fpi.Regret` is compared with.

It imports nothing from fpi. Every level of every stage keeps the inverses of all its covariances, and the freezing
index is found by trying k = 0, 1, 2, ... in turn (a prefix that once failed to cover is not tried again: data are only
appended). Like the literal Algorithm 1 it raises `IllPosed` where rounding could decide a comparison.

The published box cannot be typed in as it stands; this is what is read into it:
- L-bar = floor(log2(sqrt(H) / kappa)) + 1, at least 2: the proof needs log2 where the paper writes ln, and level L-bar
  plays pi^(L-bar - 1), which must exist.
- Nothing is ever stored at level L-bar, so there is nothing to test there either: levels 1 .. L-bar - 1 are tested, in
  episode t at most t of them, and never more than 40, or a state of zero features would be tested for ever when
  kappa = 0. `max_level` lowers L-bar - 1.
- Levels are tested in turn up to the first that is not covered; A^(l) has a meaning only if all before are covered.
- h_t belongs to one episode, and is that of the last exploring step. Without one nothing is stored.
- `first_level` is where levels begin, 1 in the paper: all actions are allowed there, and l = min(t + first_level - 1,
  L-bar) in line 3.
- l only falls within an episode, and data of one level never enter another.
"""

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from literal import TIE, Dataset, Guarded, pick

HIGHEST = 40
CONSTANTS_ERROR = 1e-11  # relative; two ways of finding D_l may differ so much


@dataclass(frozen=True)
class Problem:
    """The constants of the paper's appendix, "paper" or "tight"."""

    horizon: int
    dim: int
    ridge: float
    delta: float
    kappa: float
    theta_bound: float
    mode: str
    deviation: float = 0.5  # of a reward, if tight

    def most_data(self, level):
        """D_l: "paper" is its closed form, "tight" the largest n that the determinant has room for.

        A datum makes it more than 1 + 4^-l times as large, all together at most (1 + n / (ridge d))^d times.
        """
        above = 2 * self.dim * 4.0**level * math.log(1 + 4 * 16.0**level / self.ridge**2)
        if self.mode == "paper":
            return above
        each = math.log1p(4.0**-level)
        below = self.dim / each - self.ridge * self.dim  # both sides grow equally fast; the solution is not below it
        if below <= 0:
            return 0.0
        for _ in range(200):
            n = (below + above) / 2
            below, above = (n, above) if n * each <= self.largest_log_det(n) else (below, n)
        return math.floor(below * (1 + 1e-12))

    def alpha(self, n, log_det, level, stage):
        """What n data with this log determinant leave open, in widths."""
        left = self.horizon - stage
        variance = self.horizon if self.mode == "paper" else left * self.deviation**2  # of a return, at most
        noise = 2 * variance * (log_det / 2 + math.log(2 * self.horizon * level**2 / self.delta))
        bound = self.theta_bound[stage] if isinstance(self.theta_bound, tuple) else self.theta_bound
        return math.sqrt(noise) + math.sqrt(n) * self.kappa + math.sqrt(self.ridge) * bound

    def largest_log_det(self, n):
        return self.dim * math.log(1 + n / (self.ridge * self.dim))

    def gap(self, level, scale, stage=0):
        """Delta_l of a stage, with alpha_l scaled."""
        n = self.most_data(level)
        return scale * self.alpha(n, self.largest_log_det(n), level, stage) * 0.5**level + self.kappa

    def top_level(self):
        """L-bar - 1."""
        if self.kappa == 0:
            return HIGHEST
        return max(2, math.floor(math.log2(math.sqrt(self.horizon) / self.kappa)) + 1) - 1


@dataclass(frozen=True)
class Rung:
    """One level at one state: A^(l)(s), k^(l)(s) or None, what the data say there, and pi^(l)(s)."""

    level: int
    allowed: np.ndarray
    k: int | None
    values: np.ndarray | None = None
    errors: np.ndarray | None = None
    action: int | None = None


class LiteralRegret(Guarded):
    """Algorithm 2. `features(observation, stage)` gives one row per action; stages count from 0."""

    def __init__(
        self,
        features,
        *,
        actions,
        horizon,
        scale=1.0,
        ridge=None,
        first_level=1,
        max_level=None,
        explore="greedy",
        elimination="paper",
        delta=0.05,
        misspecification=0.0,
        theta_bound=None,
        constants="tight",
        reward_range=(0.0, 1.0),
        seed=0,
        dtype=np.longdouble,
    ):
        self.features, self.actions, self.horizon, self.dtype = features, actions, horizon, dtype
        self.scale, self.ridge, self.max_level = scale, 1 / horizon if ridge is None else ridge, max_level
        self.explore, self.elimination, self.theta_bound = explore, elimination, theta_bound
        self.delta, self.kappa, self.constants = delta, misspecification, constants
        low, high = reward_range
        self.unit = max(high, 0.0) - min(low, 0.0)  # of rewards, so that |Q| <= H
        self.deviation = (high - low) / self.unit / 2  # of a reward
        self.first_level, self.seed, self.episode = first_level, seed, 0
        self.problem, self.gaps = None, {}  # Delta_l of every stage
        self.datasets = defaultdict(self.empty)  # line 1: D_h^(l), for every (stage, level)
        self.tried = defaultdict(int)  # so many prefixes do not cover, per state, level and action set

    def empty(self):
        return Dataset(self.problem.dim, self.ridge, self.dtype)

    def rows(self, observation, stage):
        rows = np.asarray(self.features(observation, stage), dtype=self.dtype)
        if self.problem is None:  # the first features show their dimension
            dim = rows.shape[1]
            bound = math.sqrt(dim) * self.horizon if self.theta_bound is None else self.theta_bound
            constants = self.delta, self.kappa, bound, self.constants, self.deviation
            self.problem = Problem(self.horizon, dim, self.ridge, *constants)
            self.levels = min(self.problem.top_level(), HIGHEST, self.max_level or HIGHEST)
            for level in range(1, self.levels + 1):
                self.gaps[level] = [self.problem.gap(level, self.scale, stage) for stage in range(self.horizon)]
            if self.first_level == "auto":  # begin where a policy is promised to lose less than H
                promising = [level for level in range(1, self.levels + 1) if max(self.gaps[level]) < 0.5]
                self.first_level = promising[0] if promising else 1
        return rows

    # --- one state -------------------------------------------------------------------------------------
    def uncovered(self, rows, data, k, level, allowed):
        """The actions of A^(l)(s) outside Cover on the first k data, in increasing order."""
        widths, errors = data.widths(rows[allowed], k)
        return allowed[self.above(widths, 0.5**level * (1 + TIE), errors)]

    def freezing_index(self, rows, data, stage, level, allowed):
        """k^(l)(s): the first prefix that covers A^(l)(s), or None where I^(l)(s) is false."""
        name = stage, level, rows.astype(float).tobytes(), allowed.tobytes()
        for k in range(self.tried[name], len(data) + 1):
            if self.uncovered(rows, data, k, level, allowed).size == 0:
                return k
            self.tried[name] = k + 1
        return None

    def log_det(self, data, k):
        """That of Sigma_k, relative to Sigma_0, or the bound on it that the paper uses."""
        if self.constants == "paper":
            return self.problem.largest_log_det(k)
        sign_and_log = np.linalg.slogdet(data.inverses[k].astype(float))
        return -sign_and_log[1] - self.problem.dim * math.log(self.ridge)

    def half_widths(self, rows, data, stage, rung):
        """How far estimates at the frozen prefix may be off, and how wrong that may be computed."""
        widths, wrong = data.widths(rows, rung.k)
        beta = self.scale * self.problem.alpha(rung.k, self.log_det(data, rung.k), rung.level, stage)
        half = beta * widths + self.kappa
        return half, beta * wrong + CONSTANTS_ERROR * half

    def optimism(self, rung, stage):
        """alpha_l, scaled."""
        n = self.problem.most_data(rung.level)
        return self.scale * self.problem.alpha(n, self.problem.largest_log_det(n), rung.level, stage)

    def upper_ends(self, rows, data, stage, rung):
        """What every action may be worth, the bar that is to be reached, and how wrong their difference may be."""
        values, errors, gaps = rung.values, rung.errors, self.gaps[rung.level]
        if self.elimination == "interval":
            half, wrong = self.half_widths(rows, data, stage, rung)
            upper, lower, errors = values + half, values - half, errors + wrong
            best, allowance = max(rung.allowed, key=lambda a: lower[a]), 2 * sum(gaps[stage + 1 :])
        else:
            upper, lower, best = values, values, rung.action
            allowance = 2 * self.horizon * max(gaps) if self.elimination == "paper" else 2 * sum(gaps[stage:])
        return upper, lower[best] - allowance, errors + errors[best] + CONSTANTS_ERROR * allowance

    def survivors(self, rows, data, stage, rung):
        """A^(l+1)(s), for a covered level l."""
        kept, (upper, bar, errors) = rung.allowed, self.upper_ends(rows, data, stage, rung)
        return kept[self.above(upper[kept], bar - TIE * (1 + abs(bar)), errors[kept])]

    def ladder(self, rows, stage, top):
        """Levels at a state, from the first up to one that is not covered, and at most to `top`."""
        rungs, allowed = [], np.arange(self.actions)
        for level in range(self.first_level, top + 1):
            data = self.datasets[stage, level]
            k = self.freezing_index(rows, data, stage, level, allowed)
            if k is None:
                return [*rungs, Rung(level, allowed, None)]
            values, errors = data.values(rows, k)
            rungs.append(Rung(level, allowed, k, values, errors, self.best(values, errors, among=allowed)))
            allowed = self.survivors(rows, data, stage, rungs[-1])
        return rungs

    def act(self, observation, stage, level):
        """Lines 6 to 15: the action, the new l, and whether this step explores."""
        rows = self.rows(observation, stage)
        *below, last = self.ladder(rows, stage, min(level, self.levels))
        if last.k is not None:
            return last.action, level, False
        data = self.datasets[stage, last.level]
        n = len(data)
        candidates = self.uncovered(rows, data, n, last.level, last.allowed)
        if self.explore == "first":
            action = candidates[0]
        elif self.explore == "widest":
            action = self.best(*data.widths(rows, n), among=candidates)
        elif self.explore == "greedy":
            values, errors = (below[-1].values, below[-1].errors) if below else data.values(rows, n)
            action = self.best(values, errors, among=candidates)
        elif self.explore == "optimistic":
            (values, wrong), (widths, off), c = data.values(rows, n), data.widths(rows, n), self.optimism(last, stage)
            action = self.best(values + c * widths, wrong + c * off + CONSTANTS_ERROR * c * widths, among=candidates)
        else:
            action = candidates[pick(self.seed, self.episode, stage, len(candidates))]
        return int(action), last.level, True

    def standing(self, observation, stage):
        """The ladder at a state as it would be climbed now."""
        rows = self.rows(observation, stage)
        return self.ladder(rows, stage, min(self.episode + self.first_level, self.levels))

    def predict(self, observation, stage):
        """pi^(l)(s) of the largest covered level, else an uncovered action, and whether any level covers."""
        covered = [rung for rung in self.standing(observation, stage) if rung.k is not None]
        if covered:
            return covered[-1].action, True
        return self.act(observation, stage, self.first_level)[0], False

    def greedy(self, observation, stage):
        """The same with the best estimate on all data of the first level where none covers."""
        action, is_covered = self.predict(observation, stage)
        if is_covered:
            return action
        rows, data = self.rows(observation, stage), self.datasets[stage, self.first_level]
        return self.best(*data.values(rows, len(data)), among=np.arange(self.actions))

    # --- the loop --------------------------------------------------------------------------------------
    def learn_episode(self, env):
        """Lines 3 to 21. Returns the actions taken, h_t or -1, and l_h of every step."""
        observation, _ = env.reset(seed=self.seed if self.episode == 0 else None)
        self.rows(observation, 0)  # from here on L-bar is known
        level = min(self.episode + self.first_level, self.levels + 1)
        path, exploring, ended = [], -1, False
        for stage in range(self.horizon):
            if ended:  # absorbed: reward 0 for the remaining stages, nothing is asked or stored
                path.append((None, None, 0.0, None))
                continue
            action, level, explores = self.act(observation, stage, level)
            if explores:
                exploring = stage
            phi = self.rows(observation, stage)[action]
            observation, reward, terminated, truncated, _ = env.step(action)
            path.append((phi, action, reward, level))
            ended = terminated or truncated
        if exploring >= 0:
            phi, action, _, _ = path[exploring]
            target = sum(reward / self.unit for _, _, reward, _ in path[exploring:])
            self.datasets[exploring, level].append(phi, action, target, self.episode)
        self.episode += 1
        steps = [(action, played) for _, action, _, played in path if action is not None]
        return [action for action, _ in steps], exploring, [played for _, played in steps]
