"""One contract for all agents: a new algorithm joins with a line in AGENTS."""

import copy
import functools
import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import layered
import numpy as np
import pytest
from layered import LayeredMDP
from support.agents import datasets_of

import fpi
from fpi import algorithms
from fpi.errors import CheckFailed, EnvironmentMismatch, InputError
from fpi.evaluation import Policy
from fpi.modelling import experience
from fpi.training import History

SEED = 3
STATES = functools.partial(LayeredMDP, 1, horizon=3, states=5, actions=2, early_end=0.1)
POINTS = functools.partial(STATES, observe="point")
CARTPOLE = functools.partial(gym.make, "CartPole-v1")


def one_hot():
    return fpi.OneHot(states=5, actions=2)


def tiles():
    return fpi.TileCoding([0, 0], [1, 1], tiles=2, tilings=2, actions=2)


def fourier():
    return fpi.Fourier([0, 0], [1, 1], order=2, actions=2)


def bumps():
    return fpi.RBF([[0.2, 0.2], [0.5, 0.8], [0.9, 0.1]], 0.4, actions=2)


def function():
    return layered.of_stage(layered.dense(STATES(), dim=6))


def keyed():
    return fpi.features.Function(function(), 2, key=lambda observation: observation)


def cartpole_tiles():
    return fpi.TileCoding.for_env(CARTPOLE(), tiles=2, tilings=1)


def pac(features, **settings):
    defaults = {"actions": 2, "horizon": 3, "epsilon": 1.0, "ridge": 0.5}
    return lambda: fpi.PAC(features(), **(defaults | settings))


def regret(features, **settings):
    """With so much ridge that one datum covers at level 1, and a scale at which actions are soon eliminated."""
    defaults = {"actions": 2, "horizon": 3, "scale": 0.01, "ridge": 3.0}
    return lambda: fpi.Regret(features(), **(defaults | settings))


def tables():
    return fpi.function_classes.FiniteClass(np.random.default_rng(0).uniform(0, 3, (9, 3, 5, 2)), max_value=3.0)


def candidates():
    """The same as functions, which files cannot hold."""
    functions = [lambda state, stage, i=i: tables().rows(state, stage)[:, i] for i in range(9)]
    return fpi.function_classes.FiniteClass(functions, max_value=3.0, actions=2)


def ball(features):
    return lambda: fpi.function_classes.LinearBall(features(), radius=2.0, max_value=3.0, actions=2)


def logistic():
    return fpi.function_classes.GeneralizedLinear(bumps(), radius=1.0, max_value=3.0)


def cells(min_value=0.0):
    return fpi.function_classes.Aggregation(
        lambda state, stage: 2 * state + np.arange(2), cells=10, actions=2, min_value=min_value, max_value=3.0
    )


def eluder(function_class, **settings):
    """With so small a radius that few data cover at level 1."""
    defaults = {"actions": 2, "horizon": 3, "episodes": 1_000, "scale": 1e-4}
    return lambda: fpi.Eluder(function_class(), **(defaults | settings))


def model(**observations):
    """With so small a window that plans are quick."""
    seen = experience.Observations(**observations)
    return lambda: fpi.ModelFPI(seen, actions=2, horizon=3, window=2, interval=1)


AGENTS = {
    "hindsight": (pac(tiles, hindsight=True), functools.partial(POINTS, rewards="fixed")),
    "hindsight, one-hot": (pac(one_hot, hindsight=True, epsilon=0.5), functools.partial(STATES, rewards="fixed")),
    "model": (model(size=2), POINTS),
    "model, table": (model(states=5), STATES),
    "exact": (pac(tiles), POINTS),
    "never": (pac(tiles, freeze="never"), POINTS),
    "last 20": (pac(tiles, freeze=20), POINTS),
    "widest": (pac(tiles, explore="widest"), POINTS),
    "greedy": (pac(tiles, explore="greedy"), POINTS),
    "first": (pac(tiles, explore="first"), POINTS),
    "one-hot": (pac(one_hot), STATES),
    "one-hot, never": (pac(one_hot, freeze="never"), STATES),
    "Fourier": (pac(fourier), POINTS),
    "Fourier, last 20": (pac(fourier, freeze=20, explore="greedy"), POINTS),
    "bumps": (pac(bumps, explore="widest"), POINTS),
    "function": (pac(function), STATES),
    "function with a key": (pac(keyed, freeze="never"), STATES),
    "one stage": (pac(one_hot, horizon=1), STATES),
    "other rewards": (
        pac(tiles, reward_range=(-3, 5)),
        functools.partial(POINTS, rewards="integer", reward_range=(-3, 5)),
    ),
    "CartPole, cut": (pac(cartpole_tiles, horizon=8), CARTPOLE),
    "CartPole": (pac(cartpole_tiles, horizon=500), CARTPOLE),
    "levels": (regret(tiles), POINTS),
    "levels, one-hot": (regret(one_hot, explore="random"), STATES),
    "levels, Fourier": (regret(fourier, explore="widest"), POINTS),
    "levels, function": (regret(function, elimination="stage"), STATES),
    "levels, function with a key": (regret(keyed, explore="first"), STATES),
    "levels by intervals": (regret(tiles, elimination="interval", constants="paper"), POINTS),
    "levels of the theory": (regret(bumps, scale=1.0, ridge=None), POINTS),
    "two levels": (regret(keyed, max_level=2), STATES),
    "one level": (regret(tiles, misspecification=1.0), POINTS),
    "levels, other rewards": (
        regret(tiles, reward_range=(-3, 5)),
        functools.partial(POINTS, rewards="integer", reward_range=(-3, 5)),
    ),
    "levels, CartPole": (regret(cartpole_tiles, horizon=8), CARTPOLE),
    "tables": (eluder(tables), STATES),
    "tables by intervals": (eluder(tables, elimination="interval", constants="paper", explore="widest"), STATES),
    "candidate functions": (eluder(candidates, explore="random"), STATES),
    "a ball": (eluder(ball(tiles), scale=1e-6), POINTS),
    "a ball over a function": (eluder(ball(function), scale=1e-6, elimination="stage"), STATES),
    "a ball over a keyed function": (eluder(ball(keyed), scale=1e-6), STATES),
    "a logistic class": (eluder(logistic, scale=1e-6, explore="first"), POINTS),
    "cells": (eluder(cells), STATES),
    "cells, other rewards": (
        eluder(functools.partial(cells, min_value=-3.0), reward_range=(-3, 5)),
        functools.partial(STATES, rewards="integer", reward_range=(-3, 5)),
    ),
}


@pytest.mark.parametrize(("make_agent", "make_env"), AGENTS.values(), ids=AGENTS)
def test_every_agent_keeps_the_contract(make_agent, make_env):
    report = fpi.check_agent(make_agent, make_env)
    assert len(report.passed) >= 14
    assert not [line for line in report.skipped if "observations are not arrays" not in line]


@pytest.mark.parametrize("name", sorted(AGENTS.keys() - {"CartPole"}))  # whose 500 stages take longer to cover
def test_the_contract_is_tried_where_agents_explore_and_where_they_are_sure(name):
    make_agent, make_env = AGENTS[name]
    seen = []
    make_agent().learn(make_env(), 20, seed=SEED, callback=seen.append)
    assert any(episode.stored_stage >= 0 for episode in seen)
    assert any(episode.covered_steps for episode in seen)


# Over processes


def contents(agent):
    """Every number an agent holds."""
    if isinstance(agent, fpi.ModelFPI):
        return agent.datasets.to_tensors()
    data = datasets_of(agent)
    return {
        "features": np.concatenate([each.features for each in data]),
        "actions": np.concatenate([each.actions for each in data]),
        "targets": np.concatenate([each.targets for each in data]),
        "episodes": np.concatenate([each.episodes for each in data]),
    }


def columns(history):
    return {f"history.{name}": column for name, column in vars(history).items() if column is not None}


def assert_same_bits(one, other):
    assert one.keys() == other.keys()
    for name in one:
        mine, yours = np.asarray(one[name]), np.asarray(other[name])
        assert mine.dtype == yours.dtype
        assert mine.shape == yours.shape
        assert mine.tobytes() == yours.tobytes(), name


GOES_ON = """
import sys
import numpy as np
import fpi
from test_contract import AGENTS, columns, contents
for number, (name, (make_agent, make_env)) in enumerate(AGENTS.items()):
    features = None if make_agent().datasets.config is not None else make_agent().features
    agent = fpi.load(f"{sys.argv[1]}/{number}.fpi", features=features)
    env = make_env()
    fpi.evaluate(agent, env, episodes=2, seed=5)
    history = agent.learn(env, episodes=10)
    agent.save(f"{sys.argv[1]}/{number}.fpi")
    np.savez(f"{sys.argv[1]}/{number}.npz", **contents(agent), **columns(history))
"""


@pytest.fixture(scope="module")
def other_process(tmp_path_factory):
    """Agents that learned ten episodes here, were evaluated and saved, and learned ten more in a new process."""
    folder = tmp_path_factory.mktemp("agents")
    for number, (make_agent, make_env) in enumerate(AGENTS.values()):
        agent, env = make_agent(), make_env()
        agent.learn(env, episodes=10, seed=SEED)
        fpi.evaluate(agent, env, episodes=2, seed=4)
        agent.save(folder / f"{number}.fpi")
    tests = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {tests!r})\n" + GOES_ON
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", AGENTS)
def test_saving_and_going_on_in_a_new_process_gives_the_same_bits(other_process, tmp_path, name):
    make_agent, make_env = AGENTS[name]
    number = list(AGENTS).index(name)
    whole = make_agent()
    history = whole.learn(make_env(), episodes=20, seed=SEED)
    there = dict(np.load(other_process / f"{number}.npz"))
    second_half = {name: values[10:] for name, values in columns(history).items()}
    assert_same_bits(there, contents(whole) | second_half)
    whole.save(tmp_path / "whole.fpi")
    assert (tmp_path / "whole.fpi").read_bytes() == (other_process / f"{number}.fpi").read_bytes()


# What check_agent accepts, and what it says


def test_the_built_in_task_needs_no_environment():
    report = fpi.check_agent(functools.partial(fpi.PAC, epsilon=0.5, ridge=0.1))
    assert len(report.passed) == 15 and not report.skipped
    said = str(report).splitlines()
    assert said[0] == "PAC passes 15 checks"
    assert said[1] == "  passed   global generators are left alone"


def test_an_agent_and_an_environment_may_be_passed_and_the_agent_is_untouched(tmp_path):
    agent, env = pac(tiles)(), POINTS()
    agent.learn(env, episodes=12, seed=SEED)
    agent.save(tmp_path / "before.fpi")
    fpi.check_agent(agent, env)
    agent.save(tmp_path / "after.fpi")
    assert (tmp_path / "before.fpi").read_bytes() == (tmp_path / "after.fpi").read_bytes()


def test_global_generators_are_where_they_were_after_the_checks():
    before = random.getstate(), np.random.get_state()[1].tobytes()  # noqa: NPY002
    fpi.check_agent(pac(tiles), POINTS)
    assert before == (random.getstate(), np.random.get_state()[1].tobytes())  # noqa: NPY002


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((pac(tiles)(),), "pass the one it is for"),
        ((functools.cache(pac(tiles)), POINTS), "same agent twice"),
        ((pac(tiles), functools.partial(gym.make, "Pendulum-v1")), "needs a Discrete action space"),
    ],
)
def test_what_cannot_be_checked_is_said(arguments, says):
    with pytest.raises((InputError, EnvironmentMismatch), match=says):
        fpi.check_agent(*arguments)


class Stranger:
    """Shares no code with fpi: guesses by the seed and learns nothing, but keeps the contract."""

    def __init__(self, features, actions, horizon):
        self.actions, self.horizon = actions, horizon
        self.seed, self.episodes, self.data_stored, self.generator = 0, 0, 0, None

    def learn(self, env, episodes, seed=None, progress=False, callback=None):
        rows = []
        for _ in range(episodes):
            if seed is None:
                env.unwrapped.np_random = np.random.default_rng(0)
                env.unwrapped.np_random.bit_generator.state = self.generator
            observation, _ = env.reset(seed=seed)
            self.seed, seed = self.seed if seed is None else seed, None
            guess = np.random.default_rng([self.seed, self.episodes])
            rewards = []
            for _ in range(self.horizon):
                if not np.isfinite(observation).all():
                    raise ValueError("not a number")
                observation, reward, *ends, _ = env.step(int(guess.integers(self.actions)))
                rewards.append(reward)
                if any(ends):
                    break
            rows.append((math.fsum(rewards), len(rewards)))
            self.episodes += 1
            self.generator = copy.deepcopy(env.unwrapped.np_random.bit_generator.state)
        returns, lengths = zip(*rows, strict=True) if rows else ((), ())
        return History(np.array(returns), np.array(lengths), np.full(len(rows), -1))

    def predict(self, observation, stage):
        return stage % self.actions

    def policy(self):
        return Policy(self)

    def save(self, path):
        new = path.with_suffix(".new")
        new.write_text(json.dumps([self.seed, self.episodes, self.generator]))
        new.replace(path)


def test_agents_that_share_no_code_with_fpi_can_be_checked():
    report = fpi.check_agent(Stranger)
    assert len(report.passed) == 14
    assert report.skipped == ("a loaded agent is the one saved: fpi.load does not know Stranger",)
    assert "skipped  a loaded agent" in str(report)


# Broken agents


class ReadsNumpyRandom(fpi.PAC):
    def begin_episode(self, training_state):
        np.random.random()  # noqa: NPY002
        return super().begin_episode(training_state)


class SeedsRandom(fpi.PAC):
    def learn(self, env, episodes, seed=None, **options):
        random.seed(seed)
        return super().learn(env, episodes, seed, **options)


class ExploresByTheOperatingSystem(fpi.PAC):
    def begin_episode(self, training_state):
        return super().begin_episode(replace(training_state, seed=random.SystemRandom().getrandbits(60)))


class StampsItsFiles(fpi.PAC):
    def save(self, path):
        self.notes["stamp"] = random.SystemRandom().random()
        super().save(path)


class IgnoresTheSeed(fpi.PAC):
    def learn(self, env, episodes, seed=None, **options):
        return super().learn(env, episodes, None if seed is None else 0, **options)


class SeedsEveryReset(fpi.PAC):
    def learn(self, env, episodes, seed=None, **options):
        class Same(gym.Wrapper):
            def reset(self, **_):
                return self.env.reset(seed=seed)

        return super().learn(Same(env), episodes, seed, **options)


class AnswersTooMuch(fpi.PAC):
    def predict(self, observation, stage):
        return super().predict(observation, stage) + 2


class AnswersInFloats(fpi.PAC):
    def predict(self, observation, stage):
        return float(super().predict(observation, stage))


class MustLearnFirst(fpi.PAC):
    def predict(self, observation, stage):
        if not self.episodes:
            raise RuntimeError("learn first")
        return super().predict(observation, stage)


class PredictMutates(fpi.PAC):
    def predict(self, observation, stage):
        action = super().predict(observation, stage)
        observation += 0.25
        return action


class DecidingMutates(fpi.PAC):
    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)

        def spoil(observation, stage):
            answer = decide(observation, stage)
            observation[0] = 0.5
            return answer

        return spoil


class NeedsToWrite(fpi.PAC):
    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)

        def write(observation, stage):
            observation[0] = observation[0]
            return decide(observation, stage)

        return write


class KeepsReferences(fpi.PAC):
    def begin_episode(self, training_state):
        decide, seen = super().begin_episode(training_state), []

        def from_the_start(observation, stage):
            seen.append(observation)
            return decide(seen[0], stage)

        return from_the_start


class CountsQuestions(fpi.PAC):
    def predict(self, observation, stage):
        self.notes["asked"] = self.notes.get("asked", 0) + 1
        return super().predict(observation, stage)


class Alternates(fpi.PAC):
    asked = 0

    def predict(self, observation, stage):
        self.asked += 1
        return (super().predict(observation, stage) + self.asked) % self.actions


class PredictingMovesItsGenerator(fpi.PAC):
    asked = 0

    def predict(self, observation, stage):
        self.asked += 1
        return super().predict(observation, stage)

    def begin_episode(self, training_state):
        return super().begin_episode(replace(training_state, seed=training_state.seed + self.asked))


class ForgetsItsGenerator(fpi.PAC):
    def end_episode(self, training_state, explored):
        super().end_episode(replace(training_state, generator=None), explored)


class TrustsTheEnvironment(fpi.PAC):
    """Keeps no state of the generator, but the environment it was given."""

    def learn(self, env, episodes, seed=None, **options):
        if seed is None:
            env.unwrapped.np_random, self.training_state = (
                self.env.np_random,
                replace(self.training_state, generator=None),
            )
        self.env = env.unwrapped
        return super().learn(env, episodes, seed, **options)


class StoresTwice(fpi.PAC):
    def end_episode(self, training_state, explored):
        super().end_episode(training_state, explored)
        if explored:
            self.datasets.append(self.datasets.kept, *explored, training_state.episodes)


class AppendsInside(fpi.PAC):
    """Stores the first uncovered step when it comes, not the last one at the end."""

    def begin_episode(self, training_state):
        decide, stored = super().begin_episode(training_state), []

        def and_store(observation, stage):
            action, explores = decide(observation, stage)
            if explores and not stored:
                stored.append(stage)
                self.datasets.append(self.datasets.kept, stage, action, 0.5, training_state.episodes)
            return action, explores

        return and_store


class ChangesItsMindInside(fpi.PAC):
    playing = 0

    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)

        def and_shift(observation, stage):
            self.playing = stage
            return decide(observation, stage)

        return and_shift

    def end_episode(self, training_state, explored):
        self.playing = 0
        super().end_episode(training_state, explored)

    def predict(self, observation, stage):
        return (super().predict(observation, stage) + self.playing) % self.actions


class Boasts(fpi.PAC):
    def learn(self, *arguments, **options):
        history = super().learn(*arguments, **options)
        return History(history.returns + 1, history.lengths, history.stored_stage)


class ForgetsAnEpisode(fpi.PAC):
    def learn(self, *arguments, **options):
        history = super().learn(*arguments, **options)
        return History(history.returns[1:], history.lengths[1:], history.stored_stage[1:])


class CallsStagesFromOne(fpi.PAC):
    def learn(self, *arguments, **options):
        history = super().learn(*arguments, **options)
        explored = np.where(history.stored_stage < 0, -1, history.stored_stage + 1)
        return History(history.returns, history.lengths, explored)


class DoesNotCount(fpi.PAC):
    def policy(self):
        policy = super().policy()

        def always_the_first(observation):
            policy.reset()
            return policy(observation)

        always_the_first.reset = policy.reset
        return always_the_first


class OnePolicyForAll(fpi.PAC):
    shared = None

    def policy(self):
        self.shared = self.shared or super().policy()
        return self.shared


class SavesInPlace(fpi.PAC):
    def save(self, path):
        new = path.with_suffix(".new")
        super().save(new)
        path.write_bytes(new.read_bytes())
        new.unlink()


class LeavesLitter(fpi.PAC):
    def save(self, path):
        super().save(path)
        super().save(path.with_suffix(".backup"))


class SwallowsErrors(fpi.PAC):
    def learn(self, env, episodes, seed=None, **options):
        try:
            return super().learn(env, episodes, seed, **options)
        except Exception:
            return History(np.zeros(0), np.zeros(0), np.zeros(0))


class WritesTooEarly(fpi.PAC):
    def begin_episode(self, training_state):
        self.notes["begun"] = self.notes.get("begun", 0) + 1
        return super().begin_episode(training_state)


class LosesTheGeneratorInErrors(fpi.PAC):
    def learn(self, env, episodes, seed=None, **options):
        try:
            return super().learn(env, episodes, seed, **options)
        except Exception:
            self.learn = lambda env, episodes: super(fpi.PAC, self).learn(env, episodes, seed=99)
            raise


BROKEN = [
    (ReadsNumpyRandom, "global generators are left alone: .*used the generator"),
    (SeedsRandom, "global generators are left alone: .*used the generator"),
    (ExploresByTheOperatingSystem, "the same seed gives the same run: two fresh agents"),
    (StampsItsFiles, "the same seed gives the same run: .*the files they save differ"),
    (IgnoresTheSeed, "different seeds may give different runs: .*env.reset.seed=[78]. gives"),
    (SeedsEveryReset, "different seeds may give different runs: all 20 episodes"),
    (AnswersTooMuch, "predict works before learning: predict answered [23], with 2 actions"),
    (AnswersInFloats, "predict works before learning: predict answered [01].0"),
    (MustLearnFirst, "RuntimeError.'learn first'"),
    (PredictMutates, "observations are not changed: an observation given to the agent came back changed"),
    (DecidingMutates, "observations are not changed: an observation given to the agent came back changed"),
    (NeedsToWrite, "observations are not changed: .*read-only"),
    (KeepsReferences, "observations are not changed: .*reuses its observation array"),
    (CountsQuestions, "predict changes nothing: predict changed"),
    (Alternates, "predict changes nothing: asked again in another order"),
    (PredictingMovesItsGenerator, "predict changes nothing: .*predictions in between"),
    (ForgetsItsGenerator, "learning goes on where it stopped: learn.10. twice is another run"),
    (TrustsTheEnvironment, "evaluating changes nothing: .*with an evaluation in between"),
    (StoresTwice, "as many data as the history says: data_stored went from 0 to 2"),
    (AppendsInside, "nothing changes inside an episode: data_stored or episodes changed at step"),
    (ChangesItsMindInside, "nothing changes inside an episode: predict's answer changed at step"),
    (Boasts, "the history tells what happened: episode 1 has the return"),
    (ForgetsAnEpisode, "the history tells what happened: after learn.20. the history has 19 entries"),
    (CallsStagesFromOne, "the history tells what happened: episode .* has stored_stage"),
    (DoesNotCount, "policies count stages: policy.. gave the actions"),
    (OnePolicyForAll, "policies count stages: policy.. gave the actions"),
    (SavesInPlace, "saving replaces the file in one piece: save wrote into the file that was there"),
    (LeavesLitter, "saving replaces the file in one piece: save left .*backup"),
    (SwallowsErrors, "errors leave the agent as it was: learn went on after an error in env.step"),
    (WritesTooEarly, "errors leave the agent as it was: an error in episode 1. left another agent"),
    (LosesTheGeneratorInErrors, "errors leave the agent as it was: learning on after an error"),
]


@pytest.mark.filterwarnings("ignore::fpi.errors.NondeterminismWarning")
@pytest.mark.parametrize(("broken", "says"), BROKEN, ids=[broken.__name__ for broken, _ in BROKEN])
def test_broken_agents_are_caught(broken, says):
    with pytest.raises(CheckFailed, match=says):
        fpi.check_agent(lambda: broken(tiles(), actions=2, horizon=3, epsilon=1.0, ridge=0.5), POINTS)


def test_a_load_that_forgets_is_caught(monkeypatch):
    class PAC(fpi.PAC):
        def save(self, path):
            training_state = self.training_state
            self.training_state = replace(training_state, generator=None)
            super().save(path)
            self.training_state = training_state

    monkeypatch.setattr(algorithms, "PAC", PAC)
    with pytest.raises(
        CheckFailed, match="a loaded agent is the one saved: learn.10., save, load and learn.10. is another"
    ):
        fpi.check_agent(lambda: PAC(tiles(), actions=2, horizon=3, epsilon=1.0, ridge=0.5), POINTS)


# Compiled code must not be led astray, whatever an agent does

INSIDE = """
import numpy as np
import fpi
from fpi.datasets import actors
from fpi.kernels import ridge
from test_contract import POINTS, tiles
ridge.SPARSE_ROOM = actors.ROOM = 1

class StoresEverywhere(fpi.PAC):
    '''Stores an uncovered step when it comes, at all stages, and compares decisions with what the data say.'''

    def begin_episode(self, training_state):
        decide = super().begin_episode(training_state)

        def and_store(observation, stage):
            known = self.datasets.look(self.datasets.rows(observation, stage), stage)
            explores = known.covered_at is None
            widest = int(np.argmax(known.widths >= known.widths.max() - 2e-9))
            action = widest if explores else self.predict(observation, stage)
            answer = decide(observation, stage)
            assert answer == (action, explores), (stage, answer, action, explores)
            for other in range(3 * explores):
                self.datasets.append(self.datasets.kept, other, action, 0.5, training_state.episodes)
            return answer

        return and_store

agent = StoresEverywhere(tiles(), actions=2, horizon=3, epsilon=0.3, ridge=0.5, explore="widest")
history = agent.learn(POINTS(), 100, seed=3)
assert agent.data_stored > 100 and history.covered_steps.any()
"""


@pytest.mark.process
def test_data_appended_inside_an_episode_count_from_the_next_step_on():
    """Arrays begin with room for one. .ci/bounds checks indices: there a read out of bounds fails every time."""
    script = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n" + INSIDE
    command = [sys.executable, "-W", "ignore:overflow encountered", "-c", script]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


EXPLORERS = {
    "tiles": (pac(tiles), POINTS),
    "one-hot": (pac(one_hot), STATES),
    "function": (pac(function, epsilon=0.01), STATES),
    "levels": (regret(tiles, ridge=0.1), POINTS),
    "levels, bumps": (regret(bumps, ridge=0.01), POINTS),
}


@pytest.mark.parametrize("name", EXPLORERS)
@pytest.mark.parametrize("stage", [-1, 3, 10**6])
def test_stages_that_do_not_exist_are_refused(name, stage):
    make_agent, make_env = EXPLORERS[name]
    agent, (observation, _) = make_agent(), make_env().reset(seed=0)
    decide = agent.begin_episode(replace(agent.training_state, seed=0))
    with pytest.raises(InputError, match=f"stage is {stage}; there are stages 0 to 2"):
        decide(observation, stage)
    decide(observation, 2)
    kept = agent.datasets.kept
    with pytest.raises(InputError, match=f"stage is {stage}; there are stages 0 to 2"):
        agent.datasets.append(kept, stage, 0, 0.5, 0)
    assert agent.data_stored == 0
