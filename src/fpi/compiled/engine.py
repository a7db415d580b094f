"""`learn` in compiled code: the episodes, decisions and data of `agent.learn`, to the bit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fpi._interrupts import held
from fpi._validation import check_whole
from fpi.algorithms import PAC, Agent, Regret
from fpi.algorithms.agent import WIDEST
from fpi.compiled import loop
from fpi.compiled.env import CompiledEnv, compiled_env_of
from fpi.data import Trajectory
from fpi.envs import Env, check_horizon, check_spaces
from fpi.errors import EnvironmentMismatch, InputError
from fpi.features import OneHot, TileCoding
from fpi.generators import check_generator
from fpi.history import History
from fpi.kernels.choose import EXPLORING
from fpi.kernels.levels import new_level_constants
from fpi.kernels.objects import made
from fpi.kernels.states import NAMELESS, get_arrays
from fpi.kernels.suffixes import no_suffixes
from fpi.progress import bar
from fpi.replays import is_watched, other_rewards
from fpi.settings import UNLIMITED
from fpi.training import Callback, TrainingState, first_seed, seed_to_begin_with

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
    what `StaleLog.share` needs. Whether transitions are deterministic is not checked as `agent.learn` does: a compiled
    step is given no generator. Where an agent needs deterministic rewards, episodes 1, 2, 4, 8, ... are replayed.
    """
    check_whole("episodes", episodes)
    agent = check_agent(agent)
    agent.check_learns(episodes)
    with held, first_seed(agent, seed), bar(agent, episodes if progress else 0) as tick:
        agent._finish_pending()  # an ending may be left over from a learn that was interrupted twice
        run = _Run(agent, compiled_env, _begin(agent, compiled_env, seed), episodes, log)
        if not agent.episodes:
            agent.warn_if_all_covered()
        try:
            while (before := run.row) < episodes:
                run.go_on()
                new, rows = slice(before, run.row), run
                steps, covered = int(rows.lengths[new].sum()), int(rows.covered_steps[new].sum())
                tick(run.row - before, float(rows.returns[new].sum()), steps, covered)
                if held.pressed:
                    run.end()  # whoever handles it finds the agent whole
                    held.safe_point()
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
    check_agent(agent)
    compiled_env = compiled_env_of(env)
    if compiled_env.agrees_for is not None and agent.horizon > compiled_env.agrees_for:
        raise InputError(
            f"compiled episodes of {compiled_env.name} are Gymnasium's for {compiled_env.agrees_for} steps only, "
            f"later they drift apart, and the agent has horizon={agent.horizon}. Use horizon={compiled_env.agrees_for} "
            'or less, or engine="gymnasium".'
        )
    return compiled_env


def check_agent(agent: Agent) -> PAC | Regret:
    """The agent, if compiled episodes know agents and features of this kind; raises InputError."""
    if not isinstance(agent, PAC | Regret) or not isinstance(agent.features, TileCoding | OneHot):
        found = f"{type(agent).__name__} with {type(getattr(agent, 'features', None)).__name__}"
        raise InputError(
            "compiled episodes know fpi.PAC and fpi.Regret with TileCoding or OneHot features; this is "
            f"{found}. Use the engine gymnasium."
        )
    if not isinstance(agent.settings.explore, str):
        raise InputError(
            "compiled episodes do not come back to Python to ask an exploring rule of your own. Use the engine "
            "gymnasium, or one of the named rules."
        )
    return agent


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
    seed = seed_to_begin_with(training_state, seed)
    if seed is not None:
        training_state = replace(training_state, seed=seed, generator=None)
    return replace(training_state, environment=compiled_env.environment)


def _level_constants(agent: PAC | Regret) -> Any:
    """The constants of Algorithm 2; for PAC those of no level at all."""
    if isinstance(agent, PAC):
        none = np.zeros(0)
        return made(
            new_level_constants, 1, np.zeros((0, 0)), np.zeros((0, 0)), False, none, none, none, 1.0, 0.0, False, 1, 1.0
        )
    theory, levels, stages = agent.theory, range(1, agent.levels + 1), range(agent.horizon)
    return made(
        new_level_constants,
        agent.first_level,
        np.array([[agent.optimism(stage, level) for stage in stages] for level in levels]),
        np.array([[agent.slack(stage, level) for stage in stages] for level in levels]),
        agent.settings.elimination == "interval",
        np.array([2 * math.log(theory.union(level)) for level in levels]),
        np.array([theory.deviation(stage) for stage in stages]),
        np.array([theory.bias(stage) for stage in stages]),
        float(theory.scale),
        float(theory.misspecification),
        theory.mode == "paper",
        theory.dim,
        theory.ridge,
    )


def _eliminates(agent: Regret) -> bool:
    """Whether compiled episodes have eliminated an action anywhere."""
    _, _, _, states, allowed, _, survives, _ = get_arrays(agent.datasets.actor.cache)
    decided = (states["prefix"] >= 0) & (states["prefix"] == states["frozen"])
    decided[NAMELESS] = False
    return bool((allowed > survives)[decided].any())


class _Run:
    """One call of `learn`: what compiled code fills, and how it becomes the agent's."""

    def __init__(
        self,
        agent: PAC | Regret,
        compiled_env: CompiledEnv,
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
        self.agent, self.compiled_env, self.training_state, self.episodes = (
            agent,
            compiled_env,
            training_state,
            episodes,
        )
        self._play = loop.go_on_by_stages if isinstance(agent, PAC) else loop.go_on_by_levels
        self.rng, self.visits = np.random.Generator(bits), training_state.visits
        self.returns, self.lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        self.stored_stage, self.covered_steps = np.zeros(episodes, np.int64), np.zeros(episodes, np.int64)
        self.hindsight = isinstance(agent, PAC) and agent.settings.hindsight
        self.data_stored = np.zeros(episodes, np.int64) if self.hindsight else None
        nnz = agent.features.nnz
        if not loop.new_run.signatures:
            loop.new_run.compile(tuple(loop.FIELDS.values()))
            loop.new_run.disable_compile()  # other environments are taken as functions of these types
        self.handle = made(
            loop.new_run,
            agent.datasets.actor.handle,
            _level_constants(agent),
            compiled_env.reset,
            compiled_env.step,
            self.rng,
            compiled_env.env_actions,
            compiled_env.begin()[0],
            agent.horizon,
            agent.rewards.low,
            agent.rewards.high,
            agent.rewards.span,
            agent.settings.window if isinstance(agent, PAC) else UNLIMITED,
            EXPLORING[str(agent.settings.explore)],
            training_state.seed,
            training_state.episodes,
            self.returns,
            self.lengths,
            self.stored_stage,
            self.covered_steps,
            self.visits,
            made(no_suffixes, nnz) if log is None else log.suffixes,
            log is not None,
            self.hindsight,
        )

    @property
    def row(self) -> int:
        """Episodes so far."""
        return int(loop.get_progress(self.handle)[0])

    def go_on(self) -> None:
        """Play for a moment."""
        before, row, status = self.rng.bit_generator.state, self.row, None
        try:
            status = self._play(self.handle, STEPS)
            if status == loop.TO_STORE:
                self._look_back()
                status = loop.FINISHED
        finally:
            if status != loop.FINISHED:
                self.rng.bit_generator.state = before
                for _ in range(self.row - row):  # as if an episode that failed had never begun
                    self.compiled_env.reset(self.rng, *self.compiled_env.begin())
        if status != loop.FINISHED:
            self._complain(status)

    def _look_back(self) -> None:
        """End an episode of an agent with hindsight, as `agent.learn` would."""
        assert isinstance(self.agent, PAC) and self.data_stored is not None
        start, seen, actions, rewards, terminated, last = loop.get_trajectory(self.handle)
        row, number, _ = loop.get_progress(self.handle)
        if is_watched(number):
            state, observation = start, self.compiled_env.begin()[1]
            for action, reward in zip(actions, rewards, strict=True):
                if self.compiled_env.step(state, self.compiled_env.env_actions[action], observation)[0] != reward:
                    raise other_rewards(number)
        space = self.compiled_env.observations
        seen = seen.reshape(-1, *(space.shape or ())).astype(WIDEST[np.dtype(space.dtype).kind])
        target = math.fsum(rewards[last:]) / self.agent.rewards.span
        explored = (last, int(actions[last]), target) if last >= 0 else None
        loop.end_row(self.handle)
        trajectory = Trajectory(seen, actions, rewards, terminated)
        self.data_stored[row] = self.agent.end_trajectory(self._training_state(), explored, trajectory)

    def _training_state(self) -> TrainingState:
        """After the last whole episode."""
        number, generator = loop.get_progress(self.handle)[1], dict(self.rng.bit_generator.state)
        return replace(self.training_state, episodes=number, generator=generator, visits=self.visits.copy())

    def _complain(self, status: int) -> None:
        _, number, stage = loop.get_progress(self.handle)
        try:
            if status == loop.BAD_REWARD:
                self.agent.rewards.check(float(loop.get_last(self.handle)[0][-1]), stage)
            else:
                self.agent.features.active(self.agent.datasets.actor.observation, stage)
        except (InputError, EnvironmentMismatch) as error:
            where = f"at step {stage} of episode {number + 1}"
            raise EnvironmentMismatch(f"{where}: {error} The agent is as it was before this episode.") from error

    def end(self) -> None:
        """Whatever happened, the agent stands after the last whole episode."""
        if self.row:
            if isinstance(self.agent, Regret):
                self.agent.playing = loop.get_last(self.handle)[1].tolist()
                self.agent.eliminating = not self.agent.eliminated and _eliminates(self.agent)
            self.agent.end_episode(self._training_state(), None)
        elif not self.episodes and not self.training_state.episodes:
            self.agent.end_episode(self.training_state, None)  # keeps the seed for the next call

    def history(self) -> History:
        return History(self.returns, self.lengths, self.stored_stage, self.covered_steps, self.data_stored)
