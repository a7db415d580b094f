"""What must not break an agent: kills, interrupts, damaged files, odd environments, odd numbers.

After every error the agent and its file are as they were before.
"""

import copy
import gc
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import environments as odd
import gymnasium as gym
import numpy as np
import pytest
from literal import pick
from support.agents import datasets_of

import fpi
from fpi import model_files
from fpi._interrupts import held
from fpi.errors import EnvironmentMismatch, InputError, ModelFileError, NondeterminismWarning, SaveError

SOURCES = str(Path(fpi.__file__).parent)
HORIZON = 5


def tiles():
    return fpi.TileCoding([-1, 0], [1, 1], tiles=2, tilings=2, actions=3)


def fourier():
    return fpi.Fourier([-1, 0], [1, 1], order=2, actions=3)


def bumps():
    return fpi.RBF([[-1, 0], [0, 0.5], [1, 0]], 0.5, actions=3)


def function():
    return linear


def linear(observation):
    return np.kron(np.eye(3), [0.5, 0.5 * np.clip(observation[0], -1, 1), 0.5 * np.clip(observation[1], 0, 1)])


class Reciprocal:
    """Sparse features of a user's own, which no file can hold."""

    actions, dim, separate, nnz = 3, 12, True, 2

    def active(self, observation, stage):
        near = int(np.clip(2 * observation[0] + 2, 0, 2))
        return np.array([near, near + 1], np.int32), np.array([0.6, 0.6])

    def __call__(self, observation, stage):
        indices, values = self.active(observation, stage)
        psi = np.zeros(4)
        psi[indices] = values
        return np.kron(np.eye(3), psi)


MAPS = {"tiles": tiles, "Fourier": fourier, "bumps": bumps, "function": function, "own sparse map": Reciprocal}
every_map = pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)


OWN = {
    fpi.PAC: {"epsilon": 1.0, "ridge": 0.1},
    fpi.Regret: {"scale": 0.01, "ridge": 3.0},
    fpi.Eluder: {"scale": 1e-4, "episodes": 100},
}


def make_agent(features=tiles, algorithm=fpi.PAC, **settings):
    return algorithm(features(), **({"actions": 3, "horizon": HORIZON} | OWN[algorithm] | settings))


def candidates():
    """Functions of a user's own, which no file can hold."""
    slopes = np.random.default_rng(0).uniform(-1, 1, (8, 3))
    functions = [lambda observation, stage, s=s: 2 + s * np.clip(observation[0], -1, 1) for s in slopes]
    return fpi.function_classes.FiniteClass(functions, max_value=float(HORIZON), actions=3)


def ball():
    return fpi.function_classes.LinearBall(keyed(), radius=3.0, max_value=float(HORIZON), actions=3)


def trained(episodes=12, features=tiles, env=odd.Walk, **settings):
    agent = make_agent(features, **settings)
    agent.learn(env(), episodes, seed=0)
    return agent


def load(path, features=tiles):
    return fpi.load(path, features=None if hasattr(features(), "to_config") else features())


def numbers(agent):
    """Everything that an agent has stored."""
    data = datasets_of(agent)
    return [(d.features.tolist(), d.actions.tolist(), d.targets.tolist(), d.episodes.tolist()) for d in data]


@pytest.fixture
def file_of(tmp_path, monkeypatch):
    """The bytes that an agent saves."""

    def file_of(agent):
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda _: None)  # nothing crashes here, and waiting for the disk takes long
            return saved(agent, tmp_path)

    return file_of


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.fpi"
    trained().save(path)
    return path


@pytest.fixture
def unchanged(file_of):
    """A trained agent; at the end of the test it must be what it was."""
    agent = trained()
    before = file_of(agent)
    yield agent
    assert file_of(agent) == before
    agent.learn(odd.Walk(), 8)
    assert file_of(agent) == file_of(trained(20))


# 1. Killed while saving; nowhere to save


def in_a_process_of_its_own(function, *arguments):
    """Run a function of this file in a new process, which has no threads and so can fork safely."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        f"from {__name__} import {function.__name__} as work; work(*sys.argv[2:])"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parent), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def work_until_killed(work, path, seconds):
    """Do work in another process, and kill it a little after the file has appeared."""
    child = os.fork()
    if child == 0:
        try:
            os.fsync = lambda _: None  # a kill loses nothing that was written, and hits more places without the wait
            work()
        finally:
            os._exit(1)
    while not path.exists():
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "it died by itself"
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def saved(agent, folder):
    agent.save(Path(folder) / "shown.fpi")
    return (Path(folder) / "shown.fpi").read_bytes()


def kill_savers(folder):
    path = Path(folder) / "agent.fpi"
    agents = [trained(5), trained(60)]
    files = [saved(agent, folder) for agent in agents]

    def save_for_ever():
        for agent in itertools.cycle(agents):
            agent.save(path)

    moments, found = random.Random(0), []
    while len(found) < 40 or set(found) != {0, 1}:  # however slow the computer
        work_until_killed(save_for_ever, path, moments.uniform(0, 0.01))
        found.append(files.index(saved(fpi.load(path), folder)))


@pytest.mark.process
def test_killed_while_saving_an_old_or_a_new_agent_is_left_whole(tmp_path):
    in_a_process_of_its_own(kill_savers, tmp_path)
    trained(1).save(tmp_path / "agent.fpi")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.fpi", "shown.fpi"]


def test_a_failed_save_keeps_the_file_and_the_agent(unchanged, model, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = model.read_bytes()
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SaveError, match="No space left on device. Free some space.*unchanged"):
        unchanged.save(model)
    monkeypatch.undo()
    assert model.read_bytes() == before
    with pytest.raises(SaveError, match="there is no folder"):
        unchanged.save(model.parent / "nowhere" / "agent.fpi")
    with pytest.raises(SaveError, match="Could not save to /proc"):
        unchanged.save("/proc/self/agent.fpi")
    assert [path.name for path in model.parent.iterdir() if path.suffix != ".fpi"] == []


# 2. Killed and resumed; interrupted


def kill_learners(folder):
    path, moments = Path(folder) / "agent.fpi", random.Random(1)
    for features in [*MAPS.values()] * 2:

        def learn_for_ever(features=features):
            agent = make_agent(features)
            agent.learn(odd.RandomRewards(), 10**9, seed=0, callback=lambda e: e.number % 3 == 2 and agent.save(path))

        path.unlink(missing_ok=True)
        work_until_killed(learn_for_ever, path, moments.uniform(0, 0.05))
        resumed = load(path, features)
        assert resumed.episodes % 3 == 0
        resumed.learn(odd.RandomRewards(), 10)
        undisturbed = trained(resumed.episodes, features, odd.RandomRewards)
        assert saved(resumed, folder) == saved(undisturbed, folder)
        assert numbers(resumed) == numbers(undisturbed)


@pytest.mark.process
def test_killed_and_resumed_is_the_same_as_never_killed(tmp_path):
    in_a_process_of_its_own(kill_learners, tmp_path)


def go_on(agent, env, episodes):
    """Learn up to so many episodes, as one does after Ctrl-C."""
    agent.learn(env, episodes - agent.episodes, seed=None if agent.episodes else 0)


class LineInterrupt:
    """Ctrl-C at the n-th line that fpi executes."""

    def __init__(self, moment):
        self.left = moment

    def __enter__(self):
        gc.disable()  # a finaliser that raises here takes the trace function from under CPython's feet
        self.previous = sys.gettrace()
        sys.settrace(self.call)

    def __exit__(self, *_):
        sys.settrace(self.previous)
        gc.enable()
        held.__init__()  # harder than life: where it is held, a real Ctrl-C is noted, and raises nothing
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def call(self, frame, event, _):
        return self.line if frame.f_code.co_filename.startswith(SOURCES) else None

    def line(self, frame, event, _):
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self.line


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "features"), [(fpi.PAC, tiles), (fpi.PAC, function), (fpi.Eluder, candidates), (fpi.Eluder, ball)]
)
def test_ctrl_c_at_any_line_leaves_a_usable_agent(file_of, algorithm, features):
    expected = file_of(trained(5, features, algorithm=algorithm))
    interrupted_in = set()
    for moment in itertools.count(1, 29 if algorithm is fpi.PAC else 131):
        agent, env = make_agent(features, algorithm), odd.Walk()
        interrupt = LineInterrupt(moment)
        try:
            with interrupt:
                agent.learn(env, 5, seed=0)
        except KeyboardInterrupt:
            interrupted_in.add(agent.episodes)
            assert agent.predict(np.zeros(2), 0) in range(3)
            file_of(agent)
            go_on(agent, env, 5)
        assert file_of(agent) == expected, moment
        if interrupt.left > 0:
            break
    assert interrupted_in >= {0, 1, 2, 3, 4}


class EdgeInterrupt(LineInterrupt):
    """Ctrl-C at the n-th line of the beginning and of the end of episodes."""

    def call(self, frame, event, _):
        inside = frame.f_code.co_name in ("begin_episode", "end_episode") or frame.f_back.f_trace is not None
        return super().call(frame, event, _) if inside else None


@every_map
@pytest.mark.parametrize("algorithm", [fpi.PAC, fpi.Regret])
def test_ctrl_c_at_any_line_between_two_episodes(file_of, algorithm, features):
    before = trained(4, features, algorithm=algorithm)
    expected = file_of(trained(7, features, algorithm=algorithm))
    interrupted_in = []
    for moment in itertools.count(1):
        agent = copy.deepcopy(before)
        interrupt = EdgeInterrupt(moment)
        try:
            with interrupt:
                agent.learn(odd.Walk(), 1)
        except KeyboardInterrupt:
            interrupted_in.append(agent.episodes)
        if interrupt.left > 0:
            break
        go_on(agent, odd.Walk(), 7)
        assert file_of(agent) == expected, moment
    assert set(interrupted_in) == {4, 5}  # the episode was lost, or it was carried to its end
    assert len(interrupted_in) > 15


class ClimbInterrupt(LineInterrupt):
    """Ctrl-C at the n-th line of finding out how a state stands at each level, where such knowledge is kept."""

    def call(self, frame, event, _):
        return super().call(frame, event, _) if frame.f_code.co_name in CLIMBING else None


CLIMBING = {"act", "ladder", "_next_level", "look", "_take", "append", "first_cover", "_first_dependent"}


def keyed():
    return fpi.features.Function(linear, 3, key=lambda observation: tuple(observation))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "features"), [(fpi.Regret, tiles), (fpi.Regret, keyed), (fpi.Eluder, candidates), (fpi.Eluder, ball)]
)
def test_ctrl_c_at_any_line_leaves_what_is_known_of_a_state_whole(file_of, algorithm, features):
    settings = {"algorithm": algorithm, "horizon": 2, "env": odd.FixedStart}
    before, expected = trained(20, features, **settings), file_of(trained(36, features, **settings))
    for moment in itertools.count(1, 2 if algorithm is fpi.Regret else 23):
        agent = copy.deepcopy(before)
        interrupt = ClimbInterrupt(moment)
        try:
            with interrupt:
                agent.learn(odd.FixedStart(), 4)
        except KeyboardInterrupt:
            pass
        if interrupt.left > 0:
            break
        go_on(agent, odd.FixedStart(), 36)
        assert file_of(agent) == expected, moment
    assert moment > 60


class Alarm:
    """Ctrl-C after some seconds, wherever fpi is by then."""

    def __init__(self, seconds):
        self.seconds, self.rang = seconds, False

    def __enter__(self):
        self.previous = signal.signal(signal.SIGALRM, self.ring)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, kind, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.previous)
        return kind is KeyboardInterrupt

    def ring(self, _, frame):
        while frame is not None and not frame.f_code.co_filename.startswith(SOURCES):
            frame = frame.f_back
        if frame is not None:
            self.rang = True
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_by_a_signal_at_random_moments(file_of):
    expected = file_of(trained(30, env=odd.RandomRewards))
    moments, rang = random.Random(2), 0
    while rang < 60:  # however fast the computer
        agent, env = make_agent(), odd.RandomRewards()
        while agent.episodes < 30:
            alarm = Alarm(moments.uniform(1e-4, 4e-3))
            with alarm:
                go_on(agent, env, 30)
            rang += alarm.rang
        assert file_of(agent) == expected


def test_ctrl_c_twice_in_a_hurry(file_of, monkeypatch):
    agent = trained(4)
    append, presses = agent.datasets.append, iter([KeyboardInterrupt, KeyboardInterrupt])

    def impatient(*arguments):
        for press in presses:
            raise press
        append(*arguments)

    monkeypatch.setattr(agent.datasets, "append", impatient)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(odd.Walk(), 1)
    agent.learn(odd.Walk(), 12 - 5)  # the episode that was ending is not lost
    assert agent.episodes == 12
    assert file_of(agent) == file_of(trained(12))


class Pressed(odd.Walk):
    """Ctrl-C in the middle of a step."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def noise(self):
        self.count -= 1
        if self.count == 0:
            raise KeyboardInterrupt
        return 0.0


@pytest.mark.parametrize("count", [1, 4, 7, 23, 24])
def test_ctrl_c_in_a_step_or_in_a_callback(file_of, count):
    agent, env = make_agent(), Pressed(count)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(env, 12, seed=0)
    go_on(agent, env, 6)

    def press(episode):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        agent.learn(env, 12, callback=press)
    assert agent.episodes == 7
    go_on(agent, env, 12)
    assert numbers(agent) == numbers(trained(12))


# 3. Files


def test_a_truncated_file_is_named(model):
    whole = model.read_bytes()
    for size in range(0, len(whole), 97):
        model.write_bytes(whole[:size])
        with pytest.raises(ModelFileError, match=r"model\.fpi .*cut short"):
            fpi.load(model)


def test_a_flipped_bit_is_named(model):
    whole = model.read_bytes()
    flips = random.Random(3)
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[flips.randrange(len(whole))] ^= 1 << flips.randrange(8)
        model.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=r"model\.fpi"):
            fpi.load(model)


def test_a_file_of_a_newer_version_is_named(model, monkeypatch):
    monkeypatch.setattr(model_files, "VERSION", model_files.VERSION + 1)
    trained().save(model)
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="newer fpi.*Upgrade"):
        fpi.load(model)


def test_nothing_in_a_file_runs(tmp_path):
    proof, path = tmp_path / "it ran", tmp_path / "model.fpi"
    path.write_bytes(f"cos\nsystem\n(S'touch \"{proof}\"'\ntR.".encode())  # what a pickle does when it is loaded
    with pytest.raises(ModelFileError, match="not a model file"):
        fpi.load(path)
    assert not proof.exists()


def test_an_agent_of_another_environment_is_named(model):
    agent = fpi.load(model)
    with pytest.raises(EnvironmentMismatch, match="learned on Walk with .* now given FixedStart with .* new agent"):
        agent.learn(odd.FixedStart(), 5)
    other = odd.Walk()
    other.observation_space = gym.spaces.Box(-1, 1, (2,), np.float64)
    with pytest.raises(EnvironmentMismatch, match="learned on Walk"):
        agent.learn(other, 5)
    cartpole = gym.make("CartPole-v1")
    with pytest.raises(EnvironmentMismatch, match="2 actions, the agent 3"):
        agent.learn(cartpole, 5)
    assert agent.episodes == 12


def lie(path, change):
    """Rewrite a model file with a true digest, after changing what it says."""
    tensors, meta = model_files.read(path)
    tensors = {name: tensor.copy() for name, tensor in tensors.items()}
    change(tensors, meta)
    model_files.write(path, tensors, meta)


def at(*keys, value):
    def change(tensors, meta):
        part = meta
        for key in keys[:-1]:
            part = part[key]
        part[keys[-1]] = value

    return change


def without(key):
    return lambda tensors, meta: meta.pop(key)


def tensor(name, value):
    return lambda tensors, meta: tensors.update({f"data.{name}": np.asarray(value)})


def entry(name, value):
    def change(tensors, meta):
        tensors[f"data.{name}"].flat[3] = value

    return change


LIES = {
    "another algorithm": (at("algorithm", value="SARSA"), "kind 'SARSA'; this fpi knows PAC"),
    "no algorithm": (without("algorithm"), "algorithm"),
    "a list as algorithm": (at("algorithm", value=[1]), "does not fit"),
    "no settings": (at("settings", value={}), "missing"),
    "unknown settings": (at("settings", "colour", value="red"), "colour"),
    "epsilon in words": (at("settings", "epsilon", value="one"), "epsilon is 'one'"),
    "a ridge of 0": (at("settings", "ridge", value=0), "ridge is 0"),
    "an unknown rule": (at("settings", "explore", value=["random"]), "explore"),
    "no range": (at("settings", "reward_range", value=[0, None]), "reward_range"),
    "no stages": (at("settings", "horizon", value=0), "horizon"),
    "fewer stages": (at("settings", "horizon", value=2), "stage"),
    "more stages than memory": (at("settings", "horizon", value=10**12), "does not fit"),
    "endless stages": (at("settings", "horizon", value=10**30), "does not fit"),
    "other actions": (at("settings", "actions", value=2), "actions"),
    "no features": (at("features", value=None), "feature function of your own"),
    "unknown features": (at("features", "type", value="os.system"), "os.system"),
    "other features": (at("features", "tilings", value=1), "offsets"),
    "endless features": (at("features", "tiles", value=[10**9, 10**9]), "10.18 features"),
    "text as features": (at("features", value="tiles"), "does not fit"),
    "no trail": (without("trail"), "trail"),
    "a list as trail": (at("trail", value=[]), "does not fit"),
    "an unknown trail": (at("trail", "colour", value="red"), "colour"),
    "a seed in words": (at("trail", "seed", value="seven"), "seed is 'seven'"),
    "a seed too large": (at("trail", "seed", value=2**70), "seed is"),
    "no seed": (at("trail", "seed", value=None), "seed None"),
    "fewer episodes than data": (at("trail", "episodes", value=3), "3 episodes"),
    "negative episodes": (at("trail", "episodes", value=-3), "episodes is -3"),
    "broken episodes": (at("trail", "episodes", value=12.5), "episodes is 12.5"),
    "a missing tensor": (lambda tensors, meta: tensors.pop("data.action"), "action"),
    "a short tensor": (tensor("episode", [1, 2]), "episode"),
    "a scalar tensor": (tensor("target", 1.0), "does not fit"),
    "another dtype": (tensor("target", np.zeros(12, np.float32)), "target"),
    "an endless target": (entry("target", math.inf), "not finite"),
    "an undefined feature": (entry("values", math.nan), "not finite"),
    "a long feature": (entry("values", 5.0), "norm above 1"),
    "an index outside": (entry("indices", 10**6), "indices leave the range"),
    "a negative index": (entry("indices", -1), "indices leave the range"),
    "a level that is not there": (entry("level", 2), "level leave the range"),
    "an action outside": (entry("action", 3), "action leave the range"),
    "a stage outside": (entry("stage", HORIZON), "stage leave the range"),
    "episodes out of order": (entry("episode", 0), "out of order"),
}


@pytest.mark.parametrize(("change", "says"), LIES.values(), ids=LIES)
def test_a_file_that_lies_is_named(model, change, says):
    lie(model, change)
    with pytest.raises(ModelFileError, match=says) as caught:
        fpi.load(model)
    assert str(model) in str(caught.value)


def test_the_honest_twin_of_the_lies_loads(model, file_of):
    before = model.read_bytes()
    lie(model, lambda tensors, meta: None)
    assert model.read_bytes() == before == file_of(fpi.load(model))


def test_a_false_generator_is_named(model):
    lie(model, at("trail", "generator", value={"bit_generator": "os.system"}))
    with pytest.raises(ModelFileError, match="generator state is of the kind 'os.system'"):
        fpi.load(model)


@pytest.mark.parametrize("features", [function, Reciprocal], ids=["function", "own sparse map"])
def test_a_function_of_ones_own_must_be_given_and_be_the_same(tmp_path, features, file_of):
    path = tmp_path / "model.fpi"
    agent = trained(features=features)
    agent.save(path)
    with pytest.raises(ModelFileError, match=r"Pass it: fpi.load\(path, features=...\)"):
        fpi.load(path)
    assert file_of(fpi.load(path, features=features())) == file_of(agent)
    wrong = {
        "to other features": lambda observation, stage: agent.features(observation, stage) * 0.5,
        "maps a stored observation": lambda observation: np.kron(np.eye(3), [0.5, 0.5]),
        "fails on a stored observation": lambda observation: np.eye(3)[int(observation[7])],
    }
    for says, given in wrong.items():
        with pytest.raises(ModelFileError, match=f"{says}.*Pass the same function"):
            fpi.load(path, features=given)


def test_other_built_in_features_are_named(model):
    with pytest.raises(ModelFileError, match="learned with other features.*Leave `features` out"):
        fpi.load(model, features=fourier())
    with pytest.raises(ModelFileError, match="learned with other features"):
        fpi.load(model, features=linear)
    assert fpi.load(model, features=tiles()).episodes == 12


def test_stored_samples_of_any_kind_of_number_recognise_a_function(tmp_path):
    def of_integers(observation):
        assert observation.dtype == np.int16
        return np.kron(np.eye(3), np.eye(20)[int(observation[0]) % 20] * 0.9)

    table = {step: np.eye(3, 4) * 0.9 for step in range(100)}
    worlds = [(of_integers, lambda: odd.Strided(np.int16)), (table.__getitem__, odd.NumberObservation)]
    for number, (features, env) in enumerate(worlds):
        agent = trained(features=lambda features=features: features, env=env)
        agent.save(tmp_path / f"{number}.fpi")
        assert numbers(fpi.load(tmp_path / f"{number}.fpi", features=features)) == numbers(agent)


@pytest.mark.parametrize("features", [function, Reciprocal], ids=["function", "own sparse map"])
def test_stored_samples_are_copies(tmp_path, features):
    agent = trained(features=features, env=odd.ReusedBuffer)
    agent.save(tmp_path / "agent.fpi")
    assert numbers(fpi.load(tmp_path / "agent.fpi", features=features())) == numbers(agent)


def test_settings_in_numpy_numbers_are_saved_too(tmp_path):
    agent = make_agent(
        actions=np.int64(3), horizon=np.int32(5), epsilon=np.float32(1), ridge=np.float64(0.5), freeze=np.int64(3)
    )
    agent.save(tmp_path / "agent.fpi")
    assert fpi.load(tmp_path / "agent.fpi").settings == agent.settings


# 5. Dynamics that are not deterministic

RANDOM = [
    (odd.RandomFromStep2, 2),
    (odd.OwnGenerator, 2),
    (odd.BorrowedGenerator, 2),
    (odd.ReusedBufferNoise, 2),
    (odd.TinyNoise, 1),
]


@pytest.mark.parametrize(("env", "step"), RANDOM, ids=[env.__name__ for env, _ in RANDOM])
@every_map
def test_random_transitions_are_noticed_while_learning(features, env, step):
    agent = make_agent(features)
    with pytest.warns(NondeterminismWarning, match="fpi check") as told:
        agent.learn(env(), 16, seed=0)
    assert agent.episodes == 16  # a warning, not an error
    assert all(warning.filename == __file__ for warning in told)
    assert len(told) == 1  # though the episodes 1, 2, 4, 8 and 16 are played twice
    episode, where = re.search(r"episode (\d+), .* at step (\d+)", str(told[0].message)).groups()
    assert int(episode) <= 2 and int(where) <= step + 1


def test_a_random_end_is_noticed_while_learning():
    with pytest.warns(NondeterminismWarning, match=r"\(terminated, truncated\)"):
        make_agent(horizon=20).learn(odd.RandomEnd(), 32, seed=0)


@every_map
@pytest.mark.parametrize("env", [odd.Walk, odd.RandomRewards, odd.ReusedBuffer, odd.EndsTwice, odd.NoGenerator])
def test_deterministic_transitions_are_not_suspected(features, env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_agent(features).learn(env(), 40, seed=0)


def test_cartpole_is_not_suspected_though_it_shows_less_than_it_keeps():
    env = gym.make("CartPole-v1")
    agent = fpi.PAC(fpi.TileCoding.for_env(env, tiles=2, tilings=2), actions=2, horizon=500, epsilon=1.0, ridge=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.learn(env, 40, seed=0)


def test_who_makes_the_warning_an_error_keeps_the_agent():
    agent = make_agent()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(NondeterminismWarning):
            agent.learn(odd.RandomFromStep2(), 16, seed=0)
    assert agent.episodes == agent.data_stored <= 1


# 6. Numbers that are none, and arrays of every kind


class Walk(odd.Walk):
    """Goes as `odd.Walk` does, and can be made to show one false thing at one step."""

    def __init__(self, what="", value=0.0, step=0):
        super().__init__()
        self.what, self.value, self.bad_step = what, value, step

    def observe(self):
        observation = super().observe()
        if self.what == "observation" and self.steps == self.bad_step:
            observation[1] = self.value
        return observation

    def reward(self):
        return self.value if self.what == "reward" and self.steps == self.bad_step else super().reward()


@pytest.mark.parametrize("features", [tiles, fourier, bumps, function])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("step", [0, 3])
def test_an_observation_that_is_not_finite_names_the_step(file_of, features, value, step):
    agent = trained(features=features)
    before = file_of(agent)
    with pytest.raises(EnvironmentMismatch, match=rf"step {step} of episode 13.*\[1\] is {value}.*as it was before"):
        agent.learn(Walk("observation", value, step), 5)
    assert file_of(agent) == before
    agent.learn(odd.Walk(), 8)
    assert file_of(agent) == file_of(trained(20, features=features))


@every_map
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.5, -0.25])
def test_a_reward_that_cannot_be_used_names_the_step(file_of, features, value):
    agent = trained(features=features)
    before = file_of(agent)
    with pytest.raises(
        EnvironmentMismatch, match=rf"in episode 13: the reward of step 3 is {value}, not in reward_range"
    ):
        agent.learn(Walk("reward", value, 3), 5)
    assert file_of(agent) == before
    agent.learn(odd.Walk(), 8)
    assert file_of(agent) == file_of(trained(20, features=features))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (math.nan, r"step 2 of episode 13.*feature\[1, 0\] is nan"),
        (math.inf, r"step 2 of episode 13.*feature\[1, 0\] is inf"),
        (1e200, r"step 2 of episode 13.*norm.*at most 1"),
        (30.0, r"step 2 of episode 13.*norm 30.*scale of at least 30"),
    ],
)
def test_a_feature_that_cannot_be_used_names_the_step(file_of, value, says):
    spoilt = []

    def features(observation, stage):
        matrix = linear(observation)
        matrix[1, 0] = value if spoilt and stage == 2 else matrix[1, 0]
        return matrix

    agent = trained(features=lambda: features)
    before = file_of(agent)
    spoilt.append(True)
    with pytest.raises(EnvironmentMismatch, match=says):
        agent.learn(odd.Walk(), 5)
    with pytest.raises(InputError, match="stage 2"):
        agent.predict(np.zeros(2), 2)
    spoilt.clear()
    assert file_of(agent) == before
    agent.learn(odd.Walk(), 8)
    assert numbers(agent) == numbers(trained(20, function))


def test_features_of_a_map_of_ones_own_are_checked_too(unchanged):
    class Long(Reciprocal):
        def active(self, observation, stage):
            indices, values = super().active(observation, stage)
            return indices, 10 * values

    with pytest.raises(EnvironmentMismatch, match="step 0 of episode 1.*norm of 8.4.*at most 1"):
        make_agent(Long).learn(odd.Walk(), 3, seed=0)


class Rounded(odd.Walk):
    """Clean arrays of another dtype."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def observe(self):
        scale = 10 if np.issubdtype(self.dtype, np.integer) else 1
        return np.array([scale * self.position, scale * self.steps / 10]).astype(self.dtype)


@every_map
@pytest.mark.parametrize(
    ("world", "clean"),
    [
        (odd.ReusedBuffer, odd.Walk),
        (odd.ReadOnly, odd.Walk),
        (odd.Strided, odd.Walk),
        (lambda: odd.Strided(np.float32), lambda: Rounded(np.float32)),
        (lambda: odd.Strided(np.float16), lambda: Rounded(np.float16)),
        (lambda: odd.Strided(np.int8), lambda: Rounded(np.int64)),
        (lambda: odd.Strided(">f8"), odd.Walk),
    ],
    ids=["reused buffer", "read-only", "strided", "float32", "float16", "int8", "big-endian"],
)
def test_arrays_of_every_kind_give_the_same_run(features, world, clean):
    one, other = make_agent(features), make_agent(features)
    histories = [one.learn(world(), 25, seed=0), other.learn(clean(), 25, seed=0)]
    np.testing.assert_array_equal(histories[0].returns, histories[1].returns)
    assert numbers(one) == numbers(other)


class Column(odd.Walk):
    """Observations of shape (2, 1)."""

    def __init__(self):
        super().__init__()
        self.observation_space = gym.spaces.Box(-5, 5, (2, 1), np.float64)

    def observe(self):
        return super().observe()[:, None]


@pytest.mark.parametrize("features", [tiles, fourier, bumps])
def test_observations_of_another_shape_are_read_in_order(features):
    assert numbers(trained(25, features, Column)) == numbers(trained(25, features))


@pytest.mark.parametrize("features", [tiles, fourier, bumps])
def test_observations_of_another_size_are_named(features):
    agent = make_agent(features)
    with pytest.raises(EnvironmentMismatch, match="1 entries, the features are for 2"):
        agent.learn(odd.NumberObservation(), 3, seed=0)
    assert agent.episodes == 0


# 7. Spaces


@pytest.mark.parametrize("kind", sorted(odd.OddActions.SPACES))
def test_other_action_spaces_are_named_before_anything_happens(unchanged, kind):
    for use in (unchanged.learn, lambda env, episodes: fpi.evaluate(unchanged, env, episodes)):
        with pytest.raises(EnvironmentMismatch, match=f"action space is {kind}.*Wrap"):
            use(odd.OddActions(kind), 3)


@pytest.mark.parametrize("env", [odd.BoxActions, odd.InfiniteActions])
def test_continuous_actions_are_told_about_the_grid(unchanged, env):
    with pytest.raises(EnvironmentMismatch, match="fpi.ActionGrid"):
        unchanged.learn(env(), 3)


def test_a_grid_makes_continuous_actions_learnable():
    agent = trained(40, env=lambda: fpi.ActionGrid(odd.InfiniteActions(), points=[0.0, 1.0, 2.0]))
    assert numbers(agent) == numbers(trained(40))


def test_actions_may_start_anywhere():
    agent = trained(40, env=odd.StartsAtFive)
    assert numbers(agent) == numbers(trained(40))
    scores = fpi.evaluate(agent, odd.StartsAtFive(), 5), fpi.evaluate(trained(40), odd.Walk(), 5)
    np.testing.assert_array_equal(scores[0].returns, scores[1].returns)


def test_another_number_of_actions_is_named(unchanged):
    two = fpi.ActionGrid(odd.BoxActions(), points=2)
    with pytest.raises(EnvironmentMismatch, match="2 actions, the agent 3"):
        unchanged.learn(two, 3)
    with pytest.raises(InputError, match="features are for 3 actions, the agent for 2"):
        make_agent(actions=2)


@pytest.mark.parametrize("env", [odd.DictObservation, odd.SequenceObservation])
def test_observations_that_are_no_arrays_are_named(unchanged, env):
    with pytest.raises(EnvironmentMismatch, match=r"features read an array. Wrap"):
        unchanged.learn(env(), 3)


def test_flattened_dictionaries_are_arrays():
    env = gym.wrappers.FlattenObservation(odd.DictObservation())
    assert numbers(trained(25, env=lambda: env)) == numbers(trained(25))


def test_what_is_no_environment_is_named(unchanged):
    for use in (unchanged.learn, lambda env, episodes: fpi.evaluate(unchanged, env, episodes)):
        with pytest.raises(EnvironmentMismatch, match=r"str, not a gymnasium.Env. Make one: gymnasium.make"):
            use("CartPole-v1", 3)


def test_unbounded_observations_are_measured_and_learned():
    with pytest.warns(UserWarning, match="declares no bounds"):
        features = fpi.TileCoding.for_env(odd.Walk(), tiles=3, tilings=2)
    assert trained(features=lambda: features).data_stored > 0


# Settings

BAD_SETTINGS = [
    ({"actions": 0}, "actions is 0"),
    ({"actions": 3.0}, "actions is 3.0"),
    ({"horizon": 0}, "horizon is 0"),
    ({"horizon": True}, "horizon is True"),
    ({"epsilon": 0}, "epsilon is 0"),
    ({"epsilon": math.nan}, "epsilon is nan"),
    ({"ridge": -1}, "ridge is -1"),
    ({"ridge": math.inf}, "ridge is inf"),
    ({"ridge": "1"}, "ridge is '1'"),
    ({"explore": "boldly"}, "explore is 'boldly'; choose one of first, widest, greedy, random"),
    ({"explore": ["first"]}, "explore is"),
    ({"freeze": "often"}, "freeze is 'often'"),
    ({"freeze": 0}, "freeze is 0"),
    ({"freeze": None}, "freeze is None"),
    ({"delta": 0}, "delta is 0"),
    ({"delta": 1}, "delta is 1"),
    ({"misspecification": -0.1}, "misspecification is -0.1"),
    ({"theta_bound": 0}, "theta_bound is 0"),
    ({"constants": "loose"}, "constants is 'loose'"),
    ({"reward_range": (1, 1)}, "not a range"),
    ({"reward_range": (2, 1)}, "not a range"),
    ({"reward_range": (0, math.inf)}, "finite"),
    ({"reward_range": ("0", "1")}, "reward_range"),
    ({"reward_range": 1}, "reward_range is 1"),
    ({"reward_range": (0, 1, 2)}, "reward_range is"),
    ({"features": lambda: "tiles"}, "features must be a feature map or a function"),
    ({"features": lambda: lambda a, b, c: a}, "must take"),
]


@pytest.mark.parametrize(("settings", "says"), BAD_SETTINGS, ids=[says for _, says in BAD_SETTINGS])
def test_settings_that_make_no_agent_are_named(settings, says):
    with pytest.raises(InputError, match=says):
        make_agent(**settings)


BAD_LEVELS = [
    *[({name: value}, f"{name} is {value!r}") for name in ("scale", "ridge") for value in (0, -1, math.nan, math.inf)],
    ({"scale": "1"}, "scale is '1'; pass a number above 0; 1 is the theory"),
    ({"scale": None}, "scale is None"),
    ({"scale": True}, "scale is True"),
    ({"ridge": "1/H"}, "ridge is '1/H'; pass None for 1/H"),
    ({"max_level": 0}, "max_level is 0"),
    ({"max_level": 2.0}, "max_level is 2.0"),
    ({"max_level": True}, "max_level is True"),
    ({"max_level": "all"}, "max_level is 'all'"),
    ({"elimination": "none"}, "elimination is 'none'; choose one of paper, stage, interval"),
    ({"elimination": None}, "elimination is None"),
    ({"elimination": ["paper"]}, r"elimination is \['paper'\]"),
    ({"explore": "boldly"}, "explore is 'boldly'; choose one of first, widest, greedy, random"),
    ({"horizon": 0}, "horizon is 0"),
    ({"horizon": "3", "ridge": None}, "horizon is '3'"),
    ({"misspecification": -1}, "misspecification is -1"),
    ({"horizon": 10**5, "actions": 3}, "horizon x actions x levels is 12,000,000"),
]


@pytest.mark.parametrize(("settings", "says"), BAD_LEVELS, ids=[says for _, says in BAD_LEVELS])
def test_settings_that_make_no_agent_with_levels_are_named(settings, says):
    with pytest.raises(InputError, match=says):
        make_agent(algorithm=fpi.Regret, **settings)


def test_settings_in_numpy_numbers_make_the_same_levels(tmp_path):
    agent = make_agent(algorithm=fpi.Regret, scale=np.float32(0.5), ridge=np.float64(3), max_level=np.int8(7))
    agent.save(tmp_path / "agent.fpi")
    assert fpi.load(tmp_path / "agent.fpi").settings == agent.settings
    assert agent.levels == 7


@pytest.mark.parametrize("level", [0, 3, -1, 1.0, True, None, "1"])
def test_a_level_outside_is_named(level, file_of):
    agent = trained(algorithm=fpi.Regret, max_level=2)
    before = file_of(agent)
    with pytest.raises(InputError, match=r"level is .*; this agent has levels 1 to 2"):
        agent.dataset(0, level)
    with pytest.raises(InputError, match="stage is 5; this agent has stages 0 to 4"):
        agent.dataset(5, 1)
    assert file_of(agent) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (entry("level", 0), "level leave the range 1 to 2"),
        (entry("level", 3), "level leave the range 1 to 2"),
        (lambda tensors, meta: tensors.pop("data.level"), "level are missing"),
        (at("settings", "max_level", value=1), "level leave the range"),
        (at("settings", "elimination", value="none"), "elimination is 'none'"),
        (at("settings", "scale", value=0), "scale is 0"),
    ],
)
def test_a_file_that_lies_about_levels_is_named(tmp_path, change, says):
    trained(120, algorithm=fpi.Regret, max_level=2).save(tmp_path / "agent.fpi")
    lie(tmp_path / "agent.fpi", change)
    with pytest.raises(ModelFileError, match=says):
        fpi.load(tmp_path / "agent.fpi")


BAD_CLASSES = [
    ({"episodes": 0}, "episodes is 0; pass a whole number of at least 1"),
    ({"episodes": 10.0}, "episodes is 10.0"),
    ({"scale": 0}, "scale is 0; pass a number above 0; 1 is the theory"),
    ({"elimination": "none"}, "elimination is 'none'; choose one of paper, stage, interval"),
    ({"misspecification": 0.1}, "misspecification is 0.1; function classes must hold every Q.pi exactly"),
    ({"theta_bound": 1.0}, "theta_bound belongs to linear features"),
    ({"actions": 2}, "actions is 2, but the function class has values for 3"),
    ({"horizon": HORIZON + 1}, f"go from 0 to {HORIZON}, but the rewards of {HORIZON + 1} stages"),
]


@pytest.mark.parametrize(("settings", "says"), BAD_CLASSES, ids=[says for _, says in BAD_CLASSES])
def test_settings_that_make_no_agent_with_a_class_are_named(settings, says):
    with pytest.raises(InputError, match=says):
        make_agent(candidates, fpi.Eluder, **settings)


@pytest.mark.parametrize("features", [tiles, function, dict, lambda: None])
def test_what_is_no_function_class_is_named(features):
    with pytest.raises(InputError, match="is not a function class: it needs min_value, max_value, rows, log_covering"):
        make_agent(features, fpi.Eluder)


@pytest.mark.parametrize("more", [95, np.int64(95), 10**9])
def test_an_agent_made_for_so_many_episodes_does_not_learn_for_longer(file_of, more):
    agent = trained(10, candidates, algorithm=fpi.Eluder)
    before = file_of(agent)
    with pytest.raises(InputError, match="but this agent was made for 100"):
        agent.learn(odd.Walk(), more)
    assert file_of(agent) == before
    agent.learn(odd.Walk(), 90)
    assert agent.episodes == 100


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (lambda observation, stage: np.full((3, 2), np.nan), "numbers that are not finite"),
        (lambda observation, stage: np.zeros((2, 2)), r"rows of the shape \(2, 2\) at stage 0"),
        (lambda observation, stage: np.zeros(3), r"rows of the shape \(3,\) at stage 0"),
    ],
)
def test_a_class_that_gives_wrong_rows_is_named(file_of, rows, says):
    agent = trained(10, candidates, algorithm=fpi.Eluder)
    before = file_of(agent)
    agent.features.rows = rows
    with pytest.raises(EnvironmentMismatch, match=says):
        agent.learn(odd.Walk(), 1)
    with pytest.raises(InputError, match=says):
        agent.predict(np.zeros(2), 0)
    assert file_of(agent) == before


def test_a_class_of_functions_must_be_passed_again_and_is_recognised(tmp_path):
    agent = trained(30, candidates, algorithm=fpi.Eluder)
    agent.save(tmp_path / "agent.fpi")
    assert fpi.load(tmp_path / "agent.fpi", candidates()).data_stored == agent.data_stored
    with pytest.raises(ModelFileError, match="function of your own"):
        fpi.load(tmp_path / "agent.fpi")
    for other in (ball(), fpi.function_classes.FiniteClass(candidates()._functions[::-1], max_value=5.0, actions=3)):
        with pytest.raises(ModelFileError, match="is not the one"):
            fpi.load(tmp_path / "agent.fpi", other)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (entry("level", 0), "level leave the range 1 to 6"),
        (entry("level", 7), "level leave the range 1 to 6"),
        (entry("target", math.nan), "not finite"),
        (entry("values", math.inf), "not finite"),
    ],
)
def test_a_file_that_lies_about_a_class_is_named(tmp_path, change, says):
    trained(30, candidates, algorithm=fpi.Eluder).save(tmp_path / "agent.fpi")
    lie(tmp_path / "agent.fpi", change)
    with pytest.raises(ModelFileError, match=says):
        fpi.load(tmp_path / "agent.fpi", candidates())


# 8. Horizons and ends


@every_map
@pytest.mark.parametrize("env", [odd.Walk, odd.OneStep])
def test_one_stage(features, env):
    agent = trained(40, features, env, horizon=1)
    history = agent.learn(env(), 10)
    assert set(history.lengths) == {1}
    assert agent.data_stored == len(agent.dataset(0)) >= 3
    agent.predict(np.zeros(2), 0)


@every_map
def test_terminated_and_truncated_at_once_is_an_end(features):
    agent = make_agent(features, horizon=9)
    history = agent.learn(odd.EndsTwice(), 40, seed=0)
    assert set(history.lengths) == {4}
    assert all(len(agent.dataset(stage)) == 0 for stage in range(4, 9))


@every_map
def test_without_a_time_limit_the_horizon_ends_the_episode(features):
    history = make_agent(features, horizon=13).learn(odd.Walk(), 10, seed=0)
    assert set(history.lengths) == {13}


def test_a_horizon_beyond_the_time_limit_is_named():
    agent, env = make_agent(horizon=9), gym.wrappers.TimeLimit(odd.Walk(), 7)
    for use in (agent.learn, lambda env, episodes: fpi.evaluate(agent, env, episodes)):
        with pytest.raises(EnvironmentMismatch, match="horizon=9 is longer than .* limit of 7 .* horizon=7 or less"):
            use(env, 3)
    assert agent.episodes == 0


@pytest.mark.parametrize("horizon", [3, 7])
def test_a_horizon_up_to_the_time_limit_is_fine(horizon):
    env = gym.wrappers.TimeLimit(odd.Walk(), 7)
    history = make_agent(horizon=horizon).learn(env, 10, seed=0)
    assert set(history.lengths) == {horizon}


def test_a_limit_that_nobody_declared_is_named_when_it_is_met(file_of):
    agent = make_agent(horizon=9)
    before = file_of(agent)
    with pytest.raises(EnvironmentMismatch, match="cut episode 1 off after 7 steps.*horizon=7 or less"):
        agent.learn(odd.HiddenLimit(), 3, seed=0)
    assert file_of(agent) == before
    assert set(make_agent(horizon=7).learn(odd.HiddenLimit(), 3, seed=0).lengths) == {7}


# 9. Predictions


@every_map
def test_predict_works_before_learning_and_is_pure(features, file_of):
    agent = make_agent(features)
    before = file_of(agent)
    answers = [agent.predict(np.zeros(2), stage) for stage in range(HORIZON)]
    assert answers == [pick(0, 0, stage, 3) for stage in range(HORIZON)]  # no seed yet, and everything is uncovered
    assert answers == [agent.predict(np.zeros(2), stage) for stage in range(HORIZON)]
    assert {agent.predict(np.zeros(2), stage, explore=False) for stage in range(HORIZON)} == {0}
    assert not agent.explain(np.zeros(2), 0).covered
    assert file_of(agent) == before
    agent.learn(odd.Walk(), 12, seed=0)
    assert file_of(agent) == file_of(trained(12, features))


def grid():
    return [np.array([x, y]) for x in np.linspace(-1.2, 1.2, 13) for y in np.linspace(0, 1, 3)]


@pytest.mark.slow
@every_map
@pytest.mark.parametrize("freeze", ["exact", 20])
def test_an_answer_depends_on_nothing_but_the_data(tmp_path, features, freeze):
    """Alone, in any order, by an agent that learned or by one that was loaded: the same bits."""
    agent = trained(80, features, freeze=freeze)
    agent.save(tmp_path / "agent.fpi")
    loaded = load(tmp_path / "agent.fpi", features)
    questions = list(itertools.product(range(len(grid())), range(HORIZON)))

    def answers(agent, order):
        found = {}
        for i, stage in order:
            told = agent.explain(grid()[i], stage)
            assert told.action == agent.predict(grid()[i], stage)
            found[i, stage] = (told.action, told.freezing_index, told.widths.tobytes(), told.values.tobytes())
        return found

    first = answers(agent, questions)
    assert any(answer[1] is not None for answer in first.values())
    random.Random(4).shuffle(questions)
    assert first == answers(agent, questions) == answers(loaded, questions)


@pytest.mark.parametrize("stage", [-1, HORIZON, 1.0, None, "0"])
def test_a_stage_outside_is_named(unchanged, stage):
    for ask in (unchanged.predict, unchanged.explain):
        with pytest.raises(InputError, match=r"stage is .*; this agent has stages 0 to 4"):
            ask(np.zeros(2), stage)
    with pytest.raises(InputError, match="stage is"):
        unchanged.dataset(stage)


@pytest.mark.parametrize(
    ("observation", "says"),
    [
        ([0.0, math.nan], r"observation\[1\] is nan"),
        ([math.inf, 0.0], r"observation\[0\] is inf"),
        ([0.0], "1 entries, the features are for 2"),
        ([0.0, 0.0, 0.0], "3 entries"),
        (["a", "b"], "real numbers"),
        (None, "real numbers"),
    ],
)
def test_an_observation_that_cannot_be_read_is_named(unchanged, observation, says):
    with pytest.raises(InputError, match=says):
        unchanged.predict(observation, 0)


# 10. Features at the edge of what numbers can say


def test_equal_actions_tie_and_the_lowest_wins():
    agent = trained(60, lambda: lambda observation: linear(observation)[[0, 0, 0]])
    assert agent.data_stored > 0
    questions = list(itertools.product(grid(), range(HORIZON)))
    assert {agent.predict(*question, explore=False) for question in questions} == {0}
    assert {decision.action for question in questions if (decision := agent.decide(*question)).covered} == {0}


@pytest.mark.filterwarnings("ignore::fpi.errors.CoverageWarning")
def test_zero_features_are_sure_of_nothing_to_know():
    agent = make_agent(lambda: lambda observation: np.zeros((3, 4)))
    history = agent.learn(odd.Walk(), 10, seed=0)
    assert set(history.stored_stage) == {-1} and agent.data_stored == 0
    told = agent.explain(np.zeros(2), 0)
    assert (told.action, told.covered, told.freezing_index) == (0, True, 0)
    assert told.values.tolist() == told.widths.tolist() == [0.0] * 3


def test_a_known_bound_repairs_long_features():
    def long(observation):
        return 40 * linear(observation)

    with pytest.raises(EnvironmentMismatch, match="scale of at least"):
        make_agent(lambda: long).learn(odd.Walk(), 3, seed=0)
    scaled = trained(40, lambda: fpi.features.Function(long, 3, scale=40))
    plain = trained(40, function)
    assert [data[1:] for data in numbers(scaled)] == [data[1:] for data in numbers(plain)]


@pytest.mark.parametrize("ridge", [1e-3, 1e-6, 1e-8])
def test_a_tiny_ridge_and_nearly_equal_features(ridge):
    """Estimates are those of a QR decomposition in long double, duplicates and near-duplicates included."""

    def nearly(observation):
        x = np.clip(observation[0], -1, 1)
        psi = np.array([1.0, 1.0 + 1e-5 * x, 1.0, 0.0]) / 2
        return np.kron(np.eye(3), psi)

    agent = trained(120, lambda: nearly, epsilon=0.05, ridge=ridge)
    stage = HORIZON - 1
    data = agent.dataset(stage)
    assert len(data) > 3
    dim = data.features.shape[1]
    Phi = np.vstack([np.sqrt(np.longdouble(ridge)) * np.eye(dim), data.features.astype(np.longdouble)])
    theta = np.zeros(dim, np.longdouble)
    R, z = reflected(Phi, np.concatenate([np.zeros(dim), data.targets]).astype(np.longdouble))
    for i in reversed(range(dim)):
        theta[i] = (z[i] - R[i, i + 1 :] @ theta[i + 1 :]) / R[i, i]
    compared = 0
    for observation in grid():
        told = agent.explain(observation, stage)
        if told.prefix == len(data):
            np.testing.assert_allclose(told.values, (nearly(observation) @ theta).astype(float), rtol=1e-5)
            compared += 1
    assert compared


def reflected(A, b):
    """R and Q'b of A = QR, by Householder reflections."""
    A, b = A.copy(), b.copy()
    for j in range(A.shape[1]):
        v = A[j:, j].copy()
        v[0] += np.copysign(np.sqrt((v * v).sum()), v[0])
        v /= np.sqrt((v * v).sum())
        A[j:] -= 2 * np.outer(v, v @ A[j:])
        b[j:] -= 2 * v * (v @ b[j:])
    return A, b


# 11. Tiles


class Jumps(odd.Walk):
    """Shows the borders of tiles, what lies beyond them, and numbers at the end of the range."""

    SHOWN = (-1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1e308, -1e308, 5e-324, 1 + 2**-52)

    def observe(self):
        return np.array(
            [self.SHOWN[(self.steps + int(10 * self.position)) % len(self.SHOWN)], self.SHOWN[self.steps % 5]]
        )


def test_borders_and_numbers_out_of_range_belong_to_one_tile_each():
    agent = trained(200, env=Jumps)
    for stage in range(HORIZON):
        data = agent.dataset(stage)
        np.testing.assert_array_equal(np.count_nonzero(data.features, axis=1), 2)
        np.testing.assert_allclose(np.square(data.features).sum(axis=1), 1)
        for far, near in (([1e308, 1e308], [1, 1]), ([-1e308, -1], [-1, 0]), ([-0.0, -0.0], [0.0, 0.0])):
            one, other = agent.explain(far, stage), agent.explain(near, stage)
            assert one.values.tobytes() == other.values.tobytes()
    with pytest.raises(InputError, match=r"observation\[0\] is inf"):
        agent.predict([math.inf, 0], 0)


def test_json_in_files_is_json(model):
    """Standard readers agree on what a file says: no NaN, no infinity."""
    _, meta = model_files.read(model)
    json.loads(json.dumps(meta), parse_constant=lambda name: pytest.fail(name))


# --- more of what people pass -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("question", ["alpha", "theory", "dataset_bound"])
def test_asking_for_constants_before_the_features_have_shown_their_dimension_breaks_nothing(question):
    agent = fpi.PAC(lambda x: np.eye(3) / 2, actions=3, horizon=3, epsilon=1.0, ridge=0.01)
    with pytest.raises(InputError, match="has not been called yet"):
        agent.alpha(0) if question == "alpha" else getattr(agent, question)
    agent.learn(odd.Walk(), 3, seed=0)
    assert math.isfinite(agent.alpha(0)) and agent.dataset_bound > 0


@pytest.mark.parametrize("wrong", [np.zeros(1), 0.5, np.zeros(3), np.zeros((3, 1))], ids=["1", "0d", "3", "3x1"])
def test_an_observation_of_another_shape_later_in_the_episode_is_named(wrong):
    class Shrinking(odd.Walk):
        def step(self, action):
            return wrong, *super().step(action)[1:]

    features = fpi.TileCoding([-9.0] * 2, [9.0] * 2, tiles=3, tilings=2, actions=3)
    agent = fpi.PAC(features, actions=3, horizon=3, epsilon=1.0, ridge=0.01)
    with pytest.raises(EnvironmentMismatch, match="at step 1 of episode 1"):
        agent.learn(Shrinking(), 2, seed=0)
    assert agent.episodes == 0 and agent.data_stored == 0


@pytest.mark.parametrize("reward", [None, "one", 1j], ids=repr)
def test_a_reward_that_is_no_number_is_named(reward):
    class Odd(odd.Walk):
        def step(self, action):
            observation, *_, info = super().step(action)
            return observation, reward, False, False, info

    agent = fpi.PAC(lambda x: np.eye(3) / 2, actions=3, horizon=3, epsilon=1.0, ridge=0.01)
    with pytest.raises(EnvironmentMismatch, match="the reward at step 1 is .* which is not a number"):
        agent.learn(Odd(), 1, seed=0)


@pytest.mark.parametrize(
    "settings",
    [{"epsilon": 1e200}, {"epsilon": 1e-200}, {"epsilon": 10**400}, {"ridge": 1e-160}, {"horizon": 10**9}],
    ids=str,
)
def test_settings_beyond_what_arithmetic_or_memory_can_hold_are_refused(settings):
    with pytest.raises(InputError):
        fpi.PAC(lambda x: x, **{"actions": 2, "horizon": 3, "epsilon": 1.0, "ridge": 0.1, **settings})


def test_a_reward_range_too_wide_for_arithmetic_is_refused():
    with pytest.raises(InputError, match="reward_range"):
        fpi.PAC(lambda x: x, actions=2, horizon=3, epsilon=1.0, ridge=0.1, reward_range=(-1e308, 1e308))


def test_the_seed_of_no_episodes_is_kept():
    def returns(*calls):
        agent = fpi.PAC(lambda x: np.eye(3) / 2, actions=3, horizon=3, epsilon=1.0, ridge=0.01)
        env = odd.Walk()
        return [agent.learn(env, episodes, seed=seed).returns.tolist() for episodes, seed in calls][-1]

    assert returns((0, 5), (20, None)) == returns((20, 5))


def test_an_environment_that_cannot_be_replayed_is_said_to_be_unchecked():
    class OwnNumbers(odd.Walk):
        def reset(self, **options):
            observation, info = super().reset(**options)
            self.count = getattr(self, "count", 0) + 1
            return observation + self.count / 100, info

    agent = fpi.PAC(lambda x: np.eye(3) / 2, actions=3, horizon=3, epsilon=1.0, ridge=0.01)
    with pytest.warns(NondeterminismWarning, match="start of episode 1 is not reproducible.*not be played") as told:
        agent.learn(OwnNumbers(), 9, seed=0)
    assert len(told) == 1


def test_an_agent_warns_of_random_transitions_once():
    class OtherStart(odd.RandomFromStep2):
        resets = 0

        def start(self):
            self.resets += 1
            return 0.25 if self.resets % 2 else 0.5

    agent = make_agent()
    with pytest.warns(NondeterminismWarning) as told:
        agent.learn(OtherStart(), 20, seed=0)
        agent.learn(OtherStart(), 20)
    assert sorted(str(each.message).partition(":")[0][:14] for each in told) == ["the start of e", "transitions ar"]


def test_prefix_ridge_takes_empty_sparse_data_and_refuses_what_it_cannot_hold():
    ridge = fpi.PrefixRidge(10, 1.0)
    ridge.append(([], []), 1.0)
    ridge.append(([3], [1.0]), 2.0)
    assert np.allclose(ridge.widths(([[3]], [[1.0]])).ravel(), [1, 1, math.sqrt(0.5)])
    for refused in (
        lambda: fpi.PrefixRidge(2**40, 1.0),
        lambda: fpi.PrefixRidge(3, True),
        lambda: ridge.append(([3], [1.0]), None),
        lambda: ridge.append(([3], [1.0]), 10**400),
        lambda: ridge.append(([3], [1e150]), 1.0),
        lambda: ridge.first_cover(([[3]], [[1.0]]), "a"),
    ):
        with pytest.raises(InputError):
            refused()
    assert len(ridge) == 2
