"""`learn` in compiled code: the episodes, decisions and data of `agent.learn`, to the bit."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from numba import types

from fpi._validation import check_whole
from fpi.algorithms import PAC, Agent
from fpi.compiled import loop
from fpi.compiled.env import CompiledEnv, compiled_env_of
from fpi.datasets import EXPLORING
from fpi.determinism import check_generator
from fpi.envs import Env, check_horizon, check_spaces
from fpi.errors import EnvironmentMismatch, InputError
from fpi.features import OneHot, TileCoding
from fpi.history import History
from fpi.training import Callback, TrainingState, bar

if TYPE_CHECKING:
    from fpi.compiled.stale import StaleLog

STEPS = 50_000  # between two looks at the keyboard and the progress bar


def learn(
    agent: Agent,
    compiled_env: CompiledEnv,
    episodes: int,
    seed: int | None = None,
    progress: bool = False,
    log: StaleLog | None = None,
) -> History:
    """What `agent.learn(env, episodes, seed)` does, in the compiled environment of `env`.

    Histories, data, saved files and all that comes later are the same to the bit, and both may take turns. `log` notes
    what `StaleLog.share` needs. Determinism is not checked as `agent.learn` does: a compiled step has no way to be
    random.
    """
    check_whole("episodes", episodes)
    task = task_for(agent)
    agent._finish_pending()  # an ending may be left over from a learn that was interrupted twice
    run = _Run(agent, compiled_env, task, _begin(agent, compiled_env, seed), episodes, log)
    if not agent.episodes:
        agent.warn_if_all_covered()
    with bar(agent, episodes if progress else 0) as tick:
        try:
            while (before := run.row) < episodes:
                run.go_on()
                new, rows = slice(before, run.row), run.rows
                steps, covered = int(rows.lengths[new].sum()), int(rows.covered_steps[new].sum())
                tick(run.row - before, float(rows.returns[new].sum()), steps, covered)
        finally:
            run.end()
    return run.history()


def learn_in(
    agent: Agent,
    env: Env,
    episodes: int,
    seed: int | None = None,
    progress: bool = False,
    callback: Callback | None = None,
) -> History:
    """`agent.learn(env, ..., engine="compiled")`."""
    if callback is not None:
        raise InputError(
            "a callback is called after every episode, and compiled episodes do not come back to Python in between. "
            'Leave it out, or use engine="gymnasium".'
        )
    return learn(agent, compiled_env_for(agent, env), episodes, seed, progress)


def compiled_env_for(agent: Agent, env: Env) -> CompiledEnv:
    """The compiled environment in which `agent` learns as it would in `env`; an InputError if there is none."""
    check_spaces(env, agent.actions)
    check_horizon(env, agent.horizon)
    task_for(agent)
    compiled_env = compiled_env_of(env)
    if compiled_env.agrees_for is not None and agent.horizon > compiled_env.agrees_for:
        raise InputError(
            f"compiled episodes of {compiled_env.name} are Gymnasium's for {compiled_env.agrees_for} steps only, "
            f"later they drift apart, and the agent has horizon={agent.horizon}. Use horizon={compiled_env.agrees_for} "
            'or less, or engine="gymnasium".'
        )
    return compiled_env


def task_for(agent: Agent) -> loop.Task:
    """The agent's features and settings, as compiled code takes them; without actions and seed."""
    features = agent.features
    if not isinstance(agent, PAC) or not isinstance(features, TileCoding | OneHot):
        raise InputError(
            f"compiled episodes know fpi.PAC with TileCoding or OneHot features; this is {type(agent).__name__} with "
            f"{type(features).__name__}. Use the engine gymnasium."
        )
    if isinstance(features, OneHot):
        grid, states, value = np.zeros((0, 4)), features.states, 1.0
    else:
        grid, states, value = features.grid, 0, features.value
    return loop.Task(
        env_actions=np.zeros((0, 0)),
        grid=grid,
        states=states,
        values=np.full(features.nnz, value),
        horizon=agent.horizon,
        low=agent.rewards.low,
        high=agent.rewards.high,
        threshold=agent.datasets.threshold,
        window=agent.settings.window,
        rule=EXPLORING[agent.settings.explore],
        seed=0,
    )


def _begin(agent: Agent, compiled_env: CompiledEnv, seed: int | None) -> TrainingState:
    """Check that both fit; the state to go on from has a seed, and no generator if the seed makes one."""
    count = len(compiled_env.env_actions)
    if count != agent.actions:
        raise EnvironmentMismatch(
            f"the compiled environment has {count} actions, the agent {agent.actions}. Build the agent and its "
            f"features with actions={count}, or list them: fpi.compiled.get({compiled_env.name!r}, action_grid=[...])."
        )
    size = len(agent.features.grid) if isinstance(agent.features, TileCoding) else 1
    if len(compiled_env.begin()[1]) != size:
        raise EnvironmentMismatch(
            f"its observations are {compiled_env.observations}, and the agent's features read {size} numbers."
        )
    if compiled_env.time_limit is not None and agent.horizon > compiled_env.time_limit:
        raise EnvironmentMismatch(
            f"horizon={agent.horizon} is longer than the environment's time limit of {compiled_env.time_limit} steps, "
            f"so its last stages are never reached. Use horizon={compiled_env.time_limit} or less."
        )
    training_state = agent.training_state.counted(agent.horizon)
    if training_state.environment not in (None, compiled_env.environment):
        raise EnvironmentMismatch(
            f"this agent learned on {training_state.environment} and is now given {compiled_env.environment}. Its data "
            "would not fit: use the same environment, or a new agent."
        )
    if seed is None and not training_state.episodes:
        seed = int.from_bytes(os.urandom(4)) if training_state.seed is None else training_state.seed
    if seed is not None:
        check_whole("seed", seed)
        training_state = replace(training_state, seed=int(seed), generator=None)
    return replace(training_state, environment=compiled_env.environment)


class _Run:
    """One call of `learn`: the arrays that compiled code fills, and how they become the agent's."""

    def __init__(
        self,
        agent: Agent,
        compiled_env: CompiledEnv,
        task: loop.Task,
        training_state: TrainingState,
        episodes: int,
        log: StaleLog | None,
    ) -> None:
        assert training_state.seed is not None and training_state.visits is not None
        bits = (
            np.random.PCG64(training_state.seed)
            if training_state.generator is None
            else check_generator(training_state.generator)
        )
        self.agent, self.compiled_env, self.training_state, self.episodes, self.log = (
            agent,
            compiled_env,
            training_state,
            episodes,
            log,
        )
        self.rng = np.random.Generator(bits)
        self.task = task._replace(env_actions=compiled_env.env_actions, seed=training_state.seed)
        horizon, nnz = agent.horizon, len(task.values)
        state, observation = compiled_env.begin()
        self.played = loop.Played(
            state=state,
            observation=observation,
            active=np.zeros((horizon, nnz), np.int32),
            actions=np.zeros(horizon, np.int64),
            rewards=np.zeros(horizon),
            covered=np.zeros(horizon, np.int64),
            clock=np.zeros(loop.CLOCK, np.int64),
        )
        self.played.clock[loop.NUMBER] = training_state.episodes
        self.rows = loop.Rows(
            returns=np.zeros(episodes),
            lengths=np.zeros(episodes, np.int64),
            stored_stage=np.zeros(episodes, np.int64),
            covered_steps=np.zeros(episodes, np.int64),
            visits=training_state.visits,
        )

    @property
    def row(self) -> int:
        return int(self.played.clock[loop.ROW])

    def go_on(self) -> None:
        """Play for a moment."""
        before, whole = self.rng.bit_generator.state, self._whole
        status = None
        try:
            status = self._call(self.episodes)
        finally:
            if status not in (loop.FINISHED, loop.NO_ROOM_TO_PLAY, loop.NO_ROOM_TO_APPEND):
                self.rng.bit_generator.state = before
                for _ in range(self._whole - whole):  # as if an episode that failed had never begun
                    self.compiled_env.reset(self.rng, *self.compiled_env.begin())
        if status == loop.NO_ROOM_TO_PLAY:
            self._make_room()
        elif status == loop.NO_ROOM_TO_APPEND:
            self._book()
        elif status != loop.FINISHED:
            self._complain(status)

    @property
    def _whole(self) -> int:
        """Episodes that were played to their end."""
        return self.row + int(self.played.clock[loop.WAITING])

    def _call(self, episodes: int) -> int:
        bank, visited = self.agent.datasets.bank.view, self._visited.view
        suffixes = loop.NO_SUFFIXES if self.log is None else self.log.view
        arguments = bank, visited, self.task, self.played, self.rows, suffixes
        if not loop.run.signatures:
            functions = types.FunctionType(loop.RESET), types.FunctionType(loop.STEP), types.npy_rng
            numbers = types.int64, types.int64
            loop.run.compile((*functions, *map(numba.typeof, arguments), *numbers))
            loop.run.disable_compile()  # other environments are taken as functions of these types
        status: int = loop.run(self.compiled_env.reset, self.compiled_env.step, self.rng, *arguments, episodes, STEPS)
        return status

    @property
    def _visited(self) -> Any:
        return self.agent.datasets._visited

    def _make_room(self) -> None:
        view = self._visited.view
        if len(view.rows) - view.used[0] < self.task.horizon:
            self._visited.grow()
        if self.log is not None:
            self.log.make_room(self.task.horizon)

    def _book(self) -> None:
        """Store the datum of an episode for which compiled code found no room."""
        clock = self.played.clock
        stage = int(clock[loop.EXPLORED])
        action = int(self.played.actions[stage])
        target = loop.target_of(self.task, self.played)
        active = self.played.active[stage]
        self.agent.datasets.bank.append(
            stage, action, active, self.task.values, target, action, int(clock[loop.NUMBER])
        )

    def _complain(self, status: int) -> None:
        number, stage = self.played.clock[loop.NUMBER] + 1, int(self.played.clock[loop.LENGTH])
        where = f"at step {stage} of episode {number}"
        try:
            if status == loop.BAD_REWARD:
                self.agent.rewards.check(float(self.played.rewards[stage - 1]), stage)
            else:
                self.agent.features.active(self.played.observation, stage)
        except (InputError, EnvironmentMismatch) as error:
            raise EnvironmentMismatch(f"{where}: {error} The agent is as it was before this episode.") from error

    def end(self) -> None:
        """Whatever happened, the agent stands after the last whole episode."""
        clock = self.played.clock
        if clock[loop.WAITING]:
            if clock[loop.EXPLORED] >= 0 and self.agent.datasets.last_episode < clock[loop.NUMBER]:
                self._book()
            self._call(self.row + 1)
        if self.row:
            state = dict(self.rng.bit_generator.state)
            episodes = int(clock[loop.NUMBER])
            self.agent.end_episode(
                replace(self.training_state, episodes=episodes, generator=state, visits=self.rows.visits), None
            )
        elif not self.episodes and not self.training_state.episodes:
            self.agent.end_episode(self.training_state, None)  # keeps the seed for the next call

    def history(self) -> History:
        rows = self.rows
        return History(rows.returns, rows.lengths, rows.stored_stage, rows.covered_steps)
