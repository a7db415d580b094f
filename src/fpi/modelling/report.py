"""What a learnt model is worth: on the last episode, which a model of the others had to predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fpi.data import Trajectory
from fpi.modelling.certificate import Certificate
from fpi.modelling.dynamics import target_errors, targets_of
from fpi.modelling.experience import Decisions, Experience
from fpi.modelling.planners import Plan

SURPRISE = 0.5  # error of a prediction, in scaled units
UNEXPLAINED = 0.1  # share of such errors that is too large


@dataclass(frozen=True)
class ModelReport:
    """What the model is worth, on the last episode, which a model of the others had to predict."""

    episodes: int
    known_share: float
    """Of the states of the last episode, those that were known before it."""
    decision_error: float
    """Median error over one known decision, the largest of all entries, in scaled units."""
    window_error: float
    """The same over a window of decisions, or as many as were played."""
    decisions: int
    """Of such a window."""
    unexplained: float
    """Of the known decisions, the share that it was off by more than half a unit."""
    certified: float
    """Of the steps for which `explain` states a `step_error`, the share that were off by no more; NaN if of none."""

    def __str__(self) -> str:
        text = f"after {self.episodes} episodes: {self.known_share:.0%} of the last one's states were known before"
        if not np.isnan(self.decision_error):
            text += f"; the model of the others was off by {self.decision_error:.2g} units over one decision"
            if not np.isnan(self.window_error):
                text += f" and by {self.window_error:.2g} over {self.decisions}"
            text += " (medians)"
        if not np.isnan(self.certified):
            text += f"; the step errors that explain states held for {self.certified:.0%} of the steps that have one"
        if self.unexplained > UNEXPLAINED:
            text += (
                f". {self.unexplained:.0%} of known decisions went elsewhere by more than half a unit: the "
                "model is still coarse, or transitions are random, which this agent cannot learn. `fpi check` tells; "
                "if it is noise that can be switched off, do so"
            )
        return text


def report_of(plan: Plan, experience: Experience) -> ModelReport:
    """Of a plan in the model of all episodes but the last."""
    model, last = plan.model, experience.episodes[-1:]
    seen = experience.decisions(model.coordinates.interval, last)
    before, after = seen.before[seen.whole], model.coordinates(seen.after[seen.whole])
    told = [model.step(x, int(a)) for x, a in zip(before, seen.actions[seen.whole], strict=True)]
    familiar = np.array([known and not end for _, _, end, known in told], np.bool_)
    imagined = model.coordinates(np.reshape([state for state, *_ in told], after.shape))
    errors = np.abs(imagined - after).max(axis=1)[familiar]
    visited = model.coordinates(last[0].observations[:-1])
    length, drift = _window_error(plan, last[0])
    return ModelReport(
        len(experience.episodes),
        float(np.mean([plan.distance(each) < 1.0 for each in visited])),
        float(np.median(errors)) if len(errors) else np.nan,
        drift,
        length,
        float((errors > SURPRISE).mean()) if len(errors) else 0.0,
        _certified_share(plan, experience.decisions(1, last)),
    )


def _certified_share(plan: Plan, steps: Decisions) -> float:
    """How many steps were off by no more than what is certified of them."""
    model, certificate = plan.model, Certificate(plan.model.dynamics)
    z, held = model.coordinates(steps.before), []
    seen = targets_of(z, steps.rewards, model.coordinates(steps.after), model.dynamics.plain, model.dynamics.circles)
    errors = target_errors(model.dynamics, z, steps.actions, seen)
    for each, action, error in zip(z, steps.actions, errors, strict=True):
        bound = certificate(each, int(action))
        if not np.isnan(bound):
            held.append(error <= bound)
    return float(np.mean(held)) if held else np.nan


def _window_error(plan: Plan, episode: Trajectory) -> tuple[int, float]:
    """The median distance of imagined from real states after known windows of the decisions that were played."""
    interval = plan.model.coordinates.interval
    decisions = len(episode.actions) // interval
    length = min(plan.horizon, decisions)
    if not length:
        return 0, np.nan
    apart = []
    for first in range(0, decisions - length + 1, max(1, length // 4)):
        state = episode.observations[first * interval]
        for i in range(first, first + length):
            state, _, end, known = plan.model.step(state, int(episode.actions[i * interval]))
            if end or not known:
                break  # the model does not say what comes after
        else:
            real = plan.model.coordinates(episode.observations[(first + length) * interval])
            apart.append(np.sqrt(((plan.model.coordinates(state) - real) ** 2).sum()))
    return length, float(np.median(apart)) if apart else np.nan
