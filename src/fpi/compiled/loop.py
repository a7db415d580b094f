"""Whole episodes in compiled code: environment, decisions and data without a way back to Python in between."""

import numpy as np
from numba import types

from fpi._compiling import jit, jit_inline
from fpi.kernels.actor import ACTOR, FROM_DOUBLES, act, store_kept
from fpi.kernels.lending import Kind, borrow, lend
from fpi.kernels.levels import LEVEL_CONSTANTS, climb
from fpi.kernels.numerics import exact_sum, fill, put
from fpi.kernels.objects import INDEX_ROWS, INTS, MATRIX, VECTOR, Handle, define, new, zeros
from fpi.kernels.suffixes import SUFFIXES, note

FINISHED, BAD_OBSERVATION, BAD_REWARD, TO_STORE = range(4)
SLACK = 1e-9  # of the reward range, as in `fpi.envs.RewardRange.check`

RESET = types.void(types.npy_rng, VECTOR, VECTOR)
STEP = types.Tuple((types.float64, types.boolean))(VECTOR, VECTOR, VECTOR)  # type: ignore[no-untyped-call]


class RunType(Kind):
    pass


class Run(Handle):
    """A call of `learn`, see RUN; `new_run` makes it."""

    __slots__ = ()


FIELDS = {
    "actor": ACTOR,
    "constants": LEVEL_CONSTANTS,  # of FPI-Regret; FPI-PAC has one without levels
    "reset": types.FunctionType(RESET),
    "step": types.FunctionType(STEP),
    "rng": types.npy_rng,
    "env_actions": MATRIX,  # actions as the environment takes them
    "state": VECTOR,  # of the environment
    "horizon": types.int64,
    "low": types.float64,  # of the rewards
    "high": types.float64,
    "span": types.float64,  # of the rewards and 0
    "window": types.int64,
    "rule": types.int64,
    "seed": types.int64,
    "number": types.int64,  # episodes of the learner
    "returns": VECTOR,  # per episode of this call, as the next three
    "lengths": INTS,
    "stored_stage": INTS,
    "covered_steps": INTS,
    "visits": types.Array(types.int64, 2, "C"),  # per stage: decisions, and those at covered states
    "suffixes": SUFFIXES,  # how the episodes of data went on
    "logging": types.boolean,  # whether that is noted
    "hindsight": types.boolean,  # whether Python stores what episodes tell, see `episodes`
}
RUN = define(
    RunType,
    Run,
    **FIELDS,
    row=types.int64,  # episodes of this call so far
    length=types.int64,  # of the last episode, to which the rest belongs
    explored=types.int64,  # its last exploring stage, or -1
    active=INDEX_ROWS,  # active features per stage
    actions=INTS,
    rewards=VECTOR,
    covered=INTS,
    levels=INTS,  # l_h, where there are levels
    start=VECTOR,  # the state of the environment that it began in, with hindsight; as the next two
    observations=MATRIX,  # one more than there are steps
    terminated=types.boolean,
)


@jit
def new_run(
    actor,
    constants,
    reset,
    step,
    rng,
    env_actions,
    state,
    horizon,
    low,
    high,
    span,
    window,
    rule,
    seed,
    number,
    returns,
    lengths,
    stored_stage,
    covered_steps,
    visits,
    suffixes,
    logging,
    hindsight,
):
    """A run with these FIELDS. Functions and generator cross into compiled code here, and not in every call."""
    run = new(RUN)
    run.constants = constants
    run.actor, run.reset, run.step, run.rng, run.env_actions, run.state = actor, reset, step, rng, env_actions, state
    run.horizon, run.low, run.high, run.span = horizon, low, high, span
    run.window, run.rule, run.seed = window, rule, seed
    run.number, run.returns, run.lengths, run.stored_stage = number, returns, lengths, stored_stage
    run.covered_steps, run.visits, run.suffixes, run.logging = covered_steps, visits, suffixes, logging
    run.active = zeros((horizon, actor.indices.shape[1]), np.int32)
    run.actions, run.covered = zeros(horizon, np.int64), zeros(horizon, np.int64)
    run.rewards, run.levels = zeros(horizon, np.float64), zeros(horizon, np.int64)
    fill(run.levels, 1)
    run.hindsight, run.start = hindsight, zeros(state.size, np.float64)
    run.observations = zeros((horizon + 1 if hindsight else 0, actor.observation.size), np.float64)
    return run


@jit
def get_progress(run):
    """Episodes of this call and of the learner, and the length of the last."""
    return run.row, run.number, run.length


@jit
def get_last(run):
    """Rewards and levels of the last episode."""
    return run.rewards[: run.length].copy(), run.levels[: run.length].copy()


@jit
def get_trajectory(run):
    """The last episode: where it began, its observations, actions and rewards, whether it ended by itself, and its last
    exploring stage."""
    observations, actions = run.observations[: run.length + 1].copy(), run.actions[: run.length].copy()
    return run.start.copy(), observations, actions, run.rewards[: run.length].copy(), run.terminated, run.explored


@jit_inline
def decide_by_stages(run, actor, stage, level):
    """FPI-PAC, which has no levels: action, level, and whether this step explores."""
    action, explores = act(actor, FROM_DOUBLES, stage, run.window, run.rule, run.seed, run.number, True, True)
    return action, level, explores


@jit_inline
def decide_by_levels(run, actor, stage, level):
    """FPI-Regret."""
    return climb(actor, run.constants, FROM_DOUBLES, stage, level, run.rule, run.seed, run.number)


@jit_inline
def play(run, decide):
    """One episode. Returns FINISHED or what is wrong."""
    actor, reset, step, env_actions, state = run.actor, run.reset, run.step, borrow(run.env_actions), borrow(run.state)
    actions, rewards = borrow(run.actions), borrow(run.rewards)
    covered, levels = borrow(run.covered), borrow(run.levels)
    observation = borrow(actor.observation)
    level = min(run.number + run.constants.first, run.constants.slacks.shape[0] + 1)  # line 3 of Algorithm 2
    slack = SLACK * (run.high - run.low)
    low, high = run.low - slack, run.high + slack
    run.length = 0
    run.explored = -1
    reset(run.rng, state, observation)
    if run.hindsight:
        put(run.start, state)
        put(run.observations[0], observation)
    for stage in range(run.horizon):
        action, level, explores = decide(run, actor, stage, level)
        levels[stage] = level
        if action < 0:
            return BAD_OBSERVATION
        if run.logging:
            put(run.active[stage], actor.indices[0])
        actions[stage] = action
        covered[stage] = not explores
        if explores:
            run.explored = stage
        reward, terminated = step(state, env_actions[action], observation)
        rewards[stage] = reward
        run.length += 1
        if run.hindsight:
            put(run.observations[run.length], observation)
            run.terminated = terminated
        if not low <= reward <= high:
            return BAD_REWARD
        if terminated:
            break
    return FINISHED


@jit_inline
def book(run):
    """Store the datum of an episode, unless Python does, and write down its row."""
    length, explored, row = run.length, run.explored, run.row
    if explored >= 0 and not run.hindsight:
        if run.logging:
            note(run.suffixes, run.active, run.actions, explored + 1, explored + 1, length)
        target = exact_sum(run.rewards[explored:length]) / run.span
        store_kept(run.actor, explored, run.levels[explored], run.actions[explored], target, run.number)
    run.returns[row] = exact_sum(run.rewards[:length])
    run.lengths[row] = length
    run.stored_stage[row] = explored
    run.covered_steps[row] = run.covered[:length].sum()
    for stage in range(length):
        run.visits[0, stage] += 1
        run.visits[1, stage] += run.covered[stage]
    run.row += 1
    run.number += 1


@jit_inline
def episodes(run, steps, decide):
    """Until all rows are written, `steps` steps are over, or something is wrong.

    With hindsight, also until an episode has something to tell or is to be replayed: TO_STORE, and `end_row` ends it.
    """
    while run.row < run.returns.size and steps > 0:
        status = play(run, decide)
        if status != FINISHED:
            return status
        if run.hindsight and (run.explored >= 0 or run.number & (run.number + 1) == 0):
            return TO_STORE
        steps -= run.length
        book(run)
    return FINISHED


@jit
def end_row(run):
    """Write down the row of an episode that Python has looked at."""
    book(run)


# One for each algorithm, so that a run of one does not wait for the other to be compiled.


@jit
def go_on_by_stages(run, steps):
    return episodes(lend(run), steps, decide_by_stages)


@jit
def go_on_by_levels(run, steps):
    return episodes(lend(run), steps, decide_by_levels)
