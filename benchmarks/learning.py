"""`learn` against the bare environment, and against the paper's way of keeping covariances."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import fpi
from fpi.kernels.choose import best

EPISODES = 3_000
KEPT = 20  # inverse covariances per stage in the paper's scheme
HORIZON, EPSILON, RIDGE = 500, 1.0, 1e-3
ROUNDS = 5
Seconds = NDArray[np.float64]


def run() -> Iterator[Table | str]:
    env = gym.make("CartPole-v1")
    features = fpi.TileCoding.for_env(env, tiles=4, tilings=2)
    table = Table("CartPole-v1, 4 tiles, 2 tilings, horizon 500", "figure", "target", title="learn against a bare loop")
    learn, bare, bare_ints, steps, agent = _against_bare(env, features)
    each = 1e6 / steps
    table.add_row("steps", f"{steps:,}", "")
    table.add_row("learn", f"{np.median(learn) * each:.2f} µs a step", "")
    for actions, loop in (("Python ints", bare_ints), ("numpy integers", bare)):
        table.add_row(f"bare Gymnasium loop, actions as {actions}", f"{np.median(loop) * each:.2f} µs a step", "")
    for actions, loop in (("Python ints", bare_ints), ("numpy integers", bare)):
        ratios = learn / loop
        found = f"{np.median(ratios):.2f} (quartiles {np.quantile(ratios, 0.25):.2f}, {np.quantile(ratios, 0.75):.2f})"
        table.add_row(f"learn / bare loop with {actions}", found, "at most 1.4")
    yield table

    table = Table(
        "scheme", "episodes", "µs a step, environment taken off", "slower than fpi", "memory", title="the paper's"
    )
    for tilings, episodes in ((1, 300), (2, 20)):
        features = fpi.TileCoding.for_env(env, tiles=4, tilings=tilings)
        _paper_rows(table, env, features, tilings, episodes)
    yield table
    yield f"fpi holds {agent.datasets.nbytes / 1e6:.1f} MB after {EPISODES:,} episodes of the first run."


def _agent(features: fpi.TileCoding, freeze: Any = "exact") -> fpi.PAC:
    return fpi.PAC(
        features,
        actions=2,
        horizon=HORIZON,
        epsilon=EPSILON,
        ridge=RIDGE,
        freeze=freeze,
        explore="first" if freeze == KEPT else "random",
    )


def _against_bare(env: gym.Env[Any, Any], features: fpi.TileCoding) -> tuple[Seconds, Seconds, Seconds, int, fpi.PAC]:
    """Times of each, taken in turns: neighbours see the same machine, so that their ratios vary less than times do.

    Gymnasium checks numpy integers faster than Python's, and `learn` hands it those; so there are two bare loops.
    """
    _agent(features).learn(env, 20, seed=0)
    recorded: list[list[Any]] = []
    _agent(features).learn(env, EPISODES, seed=0, callback=lambda e: recorded.append(list(e.actions)))
    ints = [[int(action) for action in actions] for actions in recorded]
    learned, bare, bare_ints = np.empty((3, ROUNDS))
    for i in range(ROUNDS):
        agent = _agent(features)
        began = time.process_time()
        history = agent.learn(env, EPISODES, seed=0)
        learned[i] = time.process_time() - began
        bare[i], bare_ints[i] = _replay(env, recorded), _replay(env, ints)
    return learned, bare, bare_ints, int(history.lengths.sum()), agent


def _replay(env: gym.Env[Any, Any], recorded: list[list[int]]) -> float:
    began = time.process_time()
    env.reset(seed=0)
    for number, actions in enumerate(recorded):
        if number:
            env.reset()
        for action in actions:
            env.step(action)
    return time.process_time() - began


def _paper_rows(table: Table, env: gym.Env[Any, Any], features: fpi.TileCoding, tilings: int, episodes: int) -> None:
    """The same run three times: as the paper does it, with sparse look-ups, and by fpi."""
    recorded: list[list[int]] = []
    _agent(features, KEPT).learn(env, 5, seed=0)
    reference = _agent(features, KEPT)
    reference.learn(env, episodes, seed=0, callback=lambda e: recorded.append(e.actions.tolist()))
    steps = sum(map(len, recorded))

    twice = sum(len(actions) for number, actions in enumerate(recorded) if number & (number + 1) == 0)

    def timed(act: Callable[[], Any], played: int) -> float:
        began = time.process_time()
        act()
        total = time.process_time() - began
        return (total - _replay(env, recorded) * played / steps) / steps * 1e6

    _replay(env, recorded)
    # learn plays some episodes twice, to check that transitions are deterministic
    rounds = [timed(lambda: _agent(features, KEPT).learn(env, episodes, seed=0), steps + twice) for _ in range(ROUNDS)]
    ours = float(np.median(rounds))
    schemes = {
        "(a) dense NumPy, last 20 inverses": DenseScheme(features),
        "(b) the same, indexed by active tiles": SparseScheme(features),
    }
    name = f"{tilings} tiling{'s' if tilings > 1 else ''}, d = {features.dim}: "
    paper_bytes = KEPT * HORIZON * features.dim**2 * 8
    for label, scheme in schemes.items():
        theirs = timed(lambda scheme=scheme: scheme.learn(env, episodes, recorded), steps)  # type: ignore[misc]
        ratio = f"{theirs / ours:,.0f}×" + (" (target 200×)" if label.startswith("(a)") else "")
        table.add_row(name + label, str(episodes), f"{theirs:,.1f}", ratio, f"{paper_bytes / 1e9:,.1f} GB from shapes")
    memory = reference.datasets.nbytes
    table.add_row(
        name + "fpi, freeze=20",
        str(episodes),
        f"{ours:.2f}",
        "1×",
        f"{memory / 1e6:.1f} MB, 1/{paper_bytes / memory:,.0f}",
    )


class DenseScheme:
    """Algorithm 1 as the paper's experiments describe it: the last 20 inverse covariances of every stage, dense.

    Uncovered actions are taken lowest index first. It checks that it takes the same actions as fpi does.
    """

    def __init__(self, features: fpi.TileCoding) -> None:
        self.features = features
        d = features.dim
        nothing = np.eye(d) / RIDGE, np.zeros(d)  # one for all stages, so that this fits into memory at all
        self.inverses: list[list[Any]] = [[nothing] for _ in range(HORIZON)]

    def learn(self, env: gym.Env[Any, Any], episodes: int, recorded: list[list[int]]) -> None:
        for number in range(episodes):
            observation, _ = env.reset(seed=0) if number == 0 else env.reset()
            kept, taken = None, []
            for stage in range(HORIZON):
                phi = self.represent(observation, stage)
                action, covered = self.act(phi, stage)
                if not covered:
                    kept = stage, self.row(phi, action)
                taken.append(action)
                observation, _, terminated, truncated, _ = env.step(action)
                if terminated or truncated:
                    break
            assert taken == recorded[number]
            if kept is not None:
                stage, row = kept
                self.update(stage, row, float(len(taken) - stage))

    def represent(self, observation: Any, stage: int) -> Any:
        return self.features(observation, stage)

    def row(self, phi: Any, action: int) -> Any:
        return phi[action]

    def widths(self, phi: Any, inverse: Any) -> Any:
        return np.sqrt(np.einsum("ad,ad->a", phi @ inverse, phi))

    def act(self, phi: Any, stage: int) -> tuple[int, bool]:
        inverses = self.inverses[stage]
        threshold = EPSILON * (1 + 1e-9)
        newest = self.widths(phi, inverses[-1][0])
        if (newest > threshold).any():
            return int(np.flatnonzero(newest > threshold)[0]), False
        for inverse, theta in inverses:  # oldest kept prefix first
            if (self.widths(phi, inverse) <= threshold).all():
                return int(best(self.values(phi, theta), np.ones(2, np.bool_))), True
        raise AssertionError

    def values(self, phi: Any, theta: Any) -> Any:
        return phi @ theta

    def update(self, stage: int, row: Any, target: float) -> None:
        inverse, theta = self.inverses[stage][-1]
        v = inverse @ row
        gain = v / (1 + row @ v)  # Sherman-Morrison
        self.inverses[stage].append((inverse - np.outer(gain, v), theta + gain * (target - row @ theta)))
        del self.inverses[stage][:-KEPT]


class SparseScheme(DenseScheme):
    """The same, but looking only at the rows and columns of active tiles; updates touch all of Σ⁻¹ still."""

    def represent(self, observation: Any, stage: int) -> Any:
        indices, _ = self.features.active(observation, stage)
        return indices[None] + np.arange(2)[:, None] * (self.features.dim // 2)

    def row(self, phi: Any, action: int) -> Any:
        row = np.zeros(self.features.dim)
        row[phi[action]] = self.features.value
        return row

    def widths(self, phi: Any, inverse: Any) -> Any:
        return np.sqrt(inverse[phi[:, :, None], phi[:, None, :]].sum(axis=(1, 2))) * self.features.value

    def values(self, phi: Any, theta: Any) -> Any:
        return theta[phi].sum(axis=1) * self.features.value
