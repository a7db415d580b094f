"""What is asked of every agent: one function a promise, its name in plain words."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from fpi import algorithms
from fpi.algorithms import loading
from fpi.evaluation import evaluate
from fpi.setting_fields import is_own
from fpi.testing.harness import (
    EPISODES,
    HALF,
    SEED,
    CheckSkipped,
    Harness,
    RecordingEnv,
    require,
    rows,
    saved,
    saved_file,
)


def global_generators_are_left_alone(harness: Harness) -> None:
    before = _global_generators()
    harness.run(EPISODES)
    require(
        before == _global_generators(),
        "the agent or its environment used the generator of `random` or `np.random`",
        "Other code uses them too. Use a numpy.random.Generator of your own, made from the seed that learn gets.",
    )


def _global_generators() -> tuple[Any, ...]:
    _, keys, *rest = np.random.get_state()  # noqa: NPY002 - this is what is looked at
    return random.getstate(), np.asarray(keys).tobytes(), *rest


def the_same_seed_gives_the_same_run(harness: Harness) -> None:
    harness.compare(
        harness.run(EPISODES),
        f"two fresh agents learned with seed={SEED} and differ",
        "Nobody could repeat a result. Draw every random number from the seed that learn gets, none from the clock, "
        "the operating system or a generator that agents share; and let save write nothing else.",
    )


def different_seeds_may_give_different_runs(harness: Harness) -> None:
    starts = [copy.deepcopy(harness.env().reset(seed=seed)[0]) for seed in (SEED, SEED + 1)]
    if np.array_equal(*starts):
        raise CheckSkipped("the environment has one start state")
    for seed, start in zip((SEED, SEED + 1), starts, strict=True):
        seen = [episode.start for episode in harness.run(EPISODES, seed=seed).episodes]
        require(
            np.array_equal(seen[0], start),
            f"learn(seed={seed}) began at {seen[0]}, but env.reset(seed={seed}) gives {start}",
            "Pass the seed of learn on to the first reset.",
        )
        require(
            not all(np.array_equal(start, other) for other in seen),
            f"all {len(seen)} episodes of one run began at the same state, though starts are random",
            "The agent would learn a single start only. Pass the seed to the first reset, and None to the later ones.",
        )


def the_history_tells_what_happened(harness: Harness) -> None:
    agent = harness.agent()
    empty = agent.learn(harness.env(), 0, seed=SEED)
    require(
        [len(column) for column in (empty.returns, empty.lengths, empty.stored_stage)] == [0, 0, 0],
        "learn(0) gave a history that is not empty",
        "Its arrays have one entry for each episode.",
    )
    run = harness.whole
    require(
        len(run.history) == EPISODES == run.agent.episodes - harness.before == len(run.episodes),
        f"after learn({EPISODES}) the history has {len(run.history)} entries, episodes counted "
        f"{run.agent.episodes - harness.before}, and the environment saw {len(run.episodes)}",
        "Count every episode once, when it has ended.",
    )
    for number, (episode, row) in enumerate(zip(run.episodes, run.history, strict=True), start=1):
        total, length, explored, _ = row
        require(
            length == len(episode.rewards) <= run.agent.horizon,
            f"episode {number} has the length {length:.0f}, the environment saw {len(episode.rewards)} steps, and the "
            f"horizon is {run.agent.horizon}",
            "Play to the end of the episode or to the horizon, and count the steps.",
        )
        require(
            bool(np.isclose(total, sum(episode.rewards), rtol=1e-9, atol=1e-9)),
            f"episode {number} has the return {total}, and its rewards add up to {sum(episode.rewards)}",
            "Let returns be sums of the rewards as the environment gives them.",
        )
        require(
            -1 <= explored < length,
            f"episode {number} of {length:.0f} steps has stored_stage = {explored:.0f}",
            "Let it be a stage of the episode, counted from 0, or -1.",
        )


def as_many_data_as_the_history_says(harness: Harness) -> None:
    run = harness.whole
    counts = [*(episode.data_stored for episode in run.episodes), run.agent.data_stored]
    for number, (before, after) in enumerate(pairwise(counts), start=1):
        told = run.history[number - 1, 3]
        require(
            after - before == told,
            f"data_stored went from {before} to {after} in episode {number}, where the history says {told:.0f}",
            "Only the last uncovered step of an episode has a return that stays true: store that one, or nothing, and "
            "let History.stored_stage be its stage or -1. If your agent may store several data, let "
            "History.data_stored say how many.",
        )


def predict_works_before_learning(harness: Harness) -> None:
    agent = harness.agent()
    for observation, stage in harness.probes:
        action = agent.predict(copy.deepcopy(observation), stage)
        require(
            isinstance(action, int | np.integer) and 0 <= action < agent.actions,
            f"predict answered {action!r}, with {agent.actions} actions",
            f"Let it return a whole number from 0 to {agent.actions - 1}.",
        )


class _ReadOnly(RecordingEnv):
    def show(self, observation: Any) -> Any:
        shown = super().show(observation)
        shown.flags.writeable = False
        return shown


class _OneBuffer(RecordingEnv):
    """Writes every observation into the same array, as some environments do."""

    def show(self, observation: Any) -> Any:
        if not hasattr(self, "buffer"):
            self.buffer = np.array(observation)
        self.buffer[...] = observation
        return self.buffer


def observations_are_not_changed(harness: Harness) -> None:
    if not isinstance(harness.probes[0][0], np.ndarray):
        raise CheckSkipped("observations are not arrays")
    agent = harness.agent()
    witness = RecordingEnv(harness.env(), agent, harness)
    agent.learn(witness, EPISODES, seed=SEED)
    for observation, stage in harness.probes:
        shown = observation.copy()
        agent.predict(shown, stage)
        witness.shown.append((shown, observation))
    require(
        all(np.array_equal(shown, before) for shown, before in witness.shown),
        "an observation given to the agent came back changed",
        "Environments and users keep theirs. Copy an observation before computing in place.",
    )
    remedy = "Take a copy of what is kept beyond one decision, and write into nothing that was given."
    for world, kind in ((_ReadOnly, "with read-only observations"), (_OneBuffer, "that reuses its observation array")):
        harness.compare(harness.run(EPISODES, world=world), f"an environment {kind} gives another run", remedy)


def learning_goes_on_where_it_stopped(harness: Harness) -> None:
    harness.compare_halves(
        "",
        "Keep the seed, the count of episodes and the state of the environment's generator after the last episode, and "
        "put that state back when learn is called without a seed.",
    )


def predict_changes_nothing(harness: Harness) -> None:
    def ask(agent: Any) -> Any:
        harness.answers(agent)
        return agent

    remedy = "People look at a policy while it learns. Let predict compute from what is stored, and store nothing."
    for agent in (harness.agent(), harness.whole.agent):
        shows = agent.episodes, agent.data_stored, saved(agent)
        first = harness.answers(agent)
        backwards = harness.answers(agent, harness.probes[::-1])[::-1]
        require(first == backwards, "asked again in another order, predict gives other answers", remedy)
        changed = shows != (agent.episodes, agent.data_stored, saved(agent))
        require(not changed, "predict changed episodes, data_stored or the file that save writes", remedy)
    harness.compare_halves(", with predictions in between,", remedy, between=ask)


def evaluating_changes_nothing(harness: Harness) -> None:
    env = harness.env()  # one for all, so that evaluating leaves its generator elsewhere

    def try_out(agent: Any) -> Any:
        evaluate(agent, env, 3, seed=SEED + 1)
        return agent

    harness.compare_halves(
        ", with an evaluation in between,",
        "Put the environment's generator back to its state after the last episode when learn is called without a seed.",
        between=try_out,
        env=env,
    )


class _QueryingEnv(RecordingEnv):
    """Asks in the middle of episodes what it asked at their beginning."""

    changed: str | None = None

    def answers(self) -> list[int]:
        return self.harness.answers(self.agent)

    def look(self) -> None:
        began = self.episodes[-1]
        place = f"at step {len(began.actions)} of episode {began.number + 1}"
        if began.data_stored != self.agent.data_stored or began.number != self.agent.episodes:
            self.changed = self.changed or f"data_stored or episodes changed {place}"
        elif began.answers != self.answers():
            self.changed = self.changed or f"predict's answer changed {place}"


def nothing_changes_inside_an_episode(harness: Harness) -> None:
    agent = harness.agent()
    witness = _QueryingEnv(harness.env(), agent, harness)
    agent.learn(witness, EPISODES, seed=SEED)
    require(
        witness.changed is None,
        f"{witness.changed}",
        "The return of an episode belongs to one policy. Decide from the data as they were when the episode began, and "
        "store when it has ended.",
    )


def policies_count_stages(harness: Harness) -> None:
    agent = harness.whole.agent
    remedy = "Let every policy count its own stages, from 0 on and again from 0 after reset()."
    stages = range(min(agent.horizon, 10))
    for observation, _ in harness.probes:
        policy, other = agent.policy(), agent.policy()
        expected = [agent.predict(observation, stage) for stage in stages]
        actions = []
        for _ in stages:
            actions.append(policy(observation))
            other.reset()
            other(observation)
        require(
            actions == expected,
            f"policy() gave the actions {actions} where predict at stages 0, 1, ... gives {expected}",
            remedy,
        )
        policy.reset()
        short = agent.policy()
        short(observation)
        short.reset()
        require(
            all(policy(observation) == short(observation) for _ in stages),
            "after reset(), policies whose first episodes had different lengths go different ways",
            remedy,
        )


def saving_replaces_the_file_in_one_piece(harness: Harness) -> None:
    young, old = harness.run(HALF), harness.whole
    with saved_file(young.agent) as path:
        with path.open("rb") as file:
            old.agent.save(path)
            require(
                file.read() == young.file,
                "save wrote into the file that was there",
                "A crash in the middle would lose both. Write a new file beside it, then os.replace the old one.",
            )
        require(
            path.read_bytes() == old.file,
            "saved over an older file, an agent gives another file than saved alone",
            "Let equal agents give equal files, whatever stood there before.",
        )
        names = sorted(each.name for each in path.parent.iterdir())
        require(names == [path.name], f"save left {names} behind", "Write the file that was asked for, and no other.")


def _loaded(agent: Any) -> Any:
    with saved_file(agent) as path:
        own = {name: getattr(agent.settings, name, None) for name in loading.OWN}
        given = {name: value for name, value in own.items() if is_own(value)}
        return algorithms.load(path, features=agent.features, **given)


def a_loaded_agent_is_the_one_saved(harness: Harness) -> None:
    if getattr(algorithms, harness.name, None) is not type(harness.agent()):
        raise CheckSkipped(f"fpi.load does not know {harness.name}")
    agent = harness.whole.agent
    require(
        harness.shows(agent) == harness.shows(_loaded(agent)),
        "a loaded agent has other episodes, data or answers than the one saved, or saves another file",
        "Save everything that a decision depends on.",
    )
    harness.compare(
        harness.run(HALF, HALF, between=_loaded),
        f"learn({HALF}), save, load and learn({HALF}) is another run than learn({EPISODES})",
        "Save everything that a decision depends on, with the seed, the count of episodes and the state of the "
        "environment's generator.",
    )


class _Failing(RecordingEnv):
    """Breaks in the middle of an episode, after some that went well."""

    kind = "an error in env.step"
    sabotaged = False

    def sabotage(self) -> bool:
        middle = len(self.episodes[-1].actions) == min(1, self.agent.horizon - 1)
        now = bool(middle and self.agent.episodes - self.harness.before >= HALF)
        self.sabotaged |= now
        return now

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.sabotage():
            raise RuntimeError("the environment broke")
        return super().step(action)


class _Undefined(_Failing):
    """Shows NaN in an episode, after some that went well."""

    kind = "an observation of NaN"
    step = RecordingEnv.step

    def show(self, observation: Any) -> Any:
        return np.full_like(observation, np.nan) if self.sabotage() else super().show(observation)


def errors_leave_the_agent_as_it_was(harness: Harness) -> None:
    whole = harness.whole
    first = harness.probes[0][0]
    has_nan = isinstance(first, np.ndarray) and first.dtype.kind == "f"
    for world in (_Failing, _Undefined) if has_nan else (_Failing,):
        agent = harness.agent()
        witness = world(harness.env(), agent, harness)
        try:
            agent.learn(witness, EPISODES, seed=SEED)
        except Exception:
            if not witness.sabotaged:
                raise
        else:
            require(
                not witness.sabotaged,
                f"learn went on after {world.kind}",
                "What was learned from it would be worthless. Let the exception through, or raise one.",
            )
            continue
        before = harness.run(agent.episodes - harness.before)
        require(
            harness.shows(before.agent) == harness.shows(agent),
            f"an error in episode {agent.episodes + 1} left another agent than {agent.episodes} episodes without it",
            "Change nothing before an episode has ended well.",
        )
        rest = EPISODES - len(before.history)
        require(
            np.array_equal(rows(agent.learn(harness.env(), rest)), whole.history[-rest:])
            and saved(agent) == whole.file,
            "learning on after an error is another run than without it",
            "Put the environment's generator back to its state after the last episode that ended well.",
        )


CHECKS: tuple[Callable[[Harness], None], ...] = (
    global_generators_are_left_alone,
    the_same_seed_gives_the_same_run,
    different_seeds_may_give_different_runs,
    the_history_tells_what_happened,
    as_many_data_as_the_history_says,
    predict_works_before_learning,
    observations_are_not_changed,
    learning_goes_on_where_it_stopped,
    predict_changes_nothing,
    evaluating_changes_nothing,
    nothing_changes_inside_an_episode,
    policies_count_stages,
    saving_replaces_the_file_in_one_piece,
    a_loaded_agent_is_the_one_saved,
    errors_leave_the_agent_as_it_was,
)
