"""Ctrl-C waits where something is half done, and nobody else's handling of it changes."""

import asyncio
import signal
import sys
import threading
from types import SimpleNamespace

import environments as odd
import numpy as np
import pytest

import fpi
from fpi import _interrupts, compiled, training
from fpi._compiling import _whole
from fpi._interrupts import held
from fpi.compiled import engine, loop
from fpi.errors import EnvironmentMismatch


def press(times=1):
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def handler():
    """A handler of the user's own, which only counts."""
    calls = []
    before = signal.signal(signal.SIGINT, lambda number, frame: calls.append(number))
    yield calls
    signal.signal(signal.SIGINT, before)


def test_it_comes_at_the_end():
    done = []
    with pytest.raises(KeyboardInterrupt), held:
        with held:
            press()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with held:
        pass  # nothing is left over


def test_it_comes_at_a_safe_point_and_what_follows_is_safe_again():
    done = []
    with pytest.raises(KeyboardInterrupt), held:
        try:
            held.safe_point()
            press()
            assert held.pressed
            held.safe_point()
            done.append("never")
        finally:
            press()  # another one, while all is put in order
            done.append("in order")
    assert done == ["in order"]


def test_an_error_inside_stays_the_reason():
    with pytest.raises(KeyboardInterrupt) as caught, held:
        press()
        raise ValueError("inside")
    assert isinstance(caught.value.__context__, ValueError)


def test_a_handler_of_ones_own_is_called_for_every_press_and_all_goes_on(handler):
    with held:
        press(2)
        assert handler == []
        held.safe_point()
        assert handler == [signal.SIGINT] * 2
        press()
    assert len(handler) == 3


def test_a_handler_may_choose_another_for_the_next_time():
    before = signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, signal.default_int_handler))
    done = []
    try:
        with pytest.raises(KeyboardInterrupt), held:
            press()
            held.safe_point()
            done.append("went on")
            press()
            done.append("noted")
        assert done == ["went on", "noted"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("choice", [signal.SIG_IGN, signal.SIG_DFL])
def test_who_wants_no_handler_has_none(choice):
    before = signal.signal(signal.SIGINT, choice)
    try:
        with held:
            assert signal.getsignal(signal.SIGINT) is choice
        assert signal.getsignal(signal.SIGINT) is choice
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_nothing():
    seen = []

    def work():
        with held:
            held.safe_point()
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
    agent = walker()
    thread = threading.Thread(target=agent.learn, args=(odd.Walk(), 3, 0))
    thread.start()
    thread.join()
    assert agent.episodes == 3


def test_asyncio_cancels_as_it_does():
    done = []

    async def main():
        with held:
            press()
            done.append("held")
        await asyncio.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    assert done == ["held"]


def test_two_in_a_hurry_do_not_end_a_session_of_somebody_who_types(monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # as IPython and its kernel have, too
    with pytest.raises(KeyboardInterrupt), held:
        press(2)
    with held:
        pass  # one was enough for both


def test_two_that_are_far_apart_are_one_after_the_other(monkeypatch):
    times = iter([0.0, 5.0])
    monkeypatch.setattr(_interrupts.time, "monotonic", lambda: next(times))
    with pytest.raises(KeyboardInterrupt), held:
        press(2)
    with held:
        pass  # one was enough for both


def test_a_room_that_was_left_open_by_another_signal_mends_itself():
    """A timer of the user's may raise between any two lines of it."""
    signal.signal(signal.SIGINT, held._noting)
    with pytest.raises(KeyboardInterrupt):
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_held_often_is_open_in_between(handler):
    with held.often():
        press()
        assert handler == [signal.SIGINT]
        with held:
            press()
            assert len(handler) == 1
        assert len(handler) == 2
        with held.often():
            pass
        press()
        assert len(handler) == 3
    press()
    assert len(handler) == 4 and signal.getsignal(signal.SIGINT) is not held._noting
    with pytest.raises(KeyboardInterrupt), held.often():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as somebody inside may choose
        press()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# --- who holds --------------------------------------------------------------------------------------------------------


def test_what_is_being_compiled_is_compiled_to_its_end():
    done = []

    def compile_for(*types):
        press()
        done.append(types)

    dispatcher = _whole(SimpleNamespace(compile=compile_for, _compile_for_args=compile_for))
    for name in ("compile", "_compile_for_args"):
        with pytest.raises(KeyboardInterrupt):
            getattr(dispatcher, name)(int)
    assert done == [(int,), (int,)]


def test_every_compiled_function_is_held():
    for function in (loop.new_run, loop.go_on_by_stages, loop.get_last):
        assert function._compile_for_args.__qualname__.startswith("_held") and "compile" in vars(function)


def walker():
    features = fpi.TileCoding([-1, 0], [1, 1], tiles=3, tilings=2, actions=3)
    return fpi.PAC(features, actions=3, horizon=5, epsilon=1.0, ridge=0.1)


class PressedAtReset(odd.Walk):
    def reset(self, **keywords):
        press()
        return super().reset(**keywords)


def test_the_seed_of_a_first_episode_is_kept_after_ctrl_c_and_not_after_an_error():
    agent = walker()
    with pytest.raises(KeyboardInterrupt):
        agent.learn(PressedAtReset(), 5, seed=7)
    assert (agent.episodes, agent.training_state.seed, agent.training_state.environment) == (0, 7, None)
    agent.learn(odd.Walk(), 5)
    whole = walker()
    whole.learn(odd.Walk(), 5, seed=7)
    assert agent.training_state == whole.training_state
    np.testing.assert_array_equal(agent.dataset(0).targets, whole.dataset(0).targets)
    agent = walker()
    with pytest.raises(EnvironmentMismatch):
        agent.learn(odd.DictObservation(), 5, seed=7)
    assert agent.training_state == training.TrainingState()


def test_spaces_are_written_to_their_end(monkeypatch):
    """Numpy remembers which arrays it is writing, and Ctrl-C at one moment leaves one there."""
    env, written = odd.Walk(), []
    text = str(env.observation_space)

    class Space(type(env.observation_space)):
        def __str__(self):
            press()
            written.append(text)
            return text

    monkeypatch.setattr(env.observation_space, "__class__", Space)
    with pytest.raises(KeyboardInterrupt):
        training.environment_name(env)
    assert written == [text]


def test_an_episode_is_stored_to_its_end(monkeypatch):
    agent = walker()
    append = agent.datasets.append

    def pressed(*arguments):
        press()
        append(*arguments)

    monkeypatch.setattr(agent.datasets, "append", pressed)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(odd.Walk(), 5, seed=0)
    assert agent.episodes == agent.data_stored == 1


def cartpole():
    features = fpi.TileCoding([-4.8, -10, -0.418, -10], [4.8, 10, 0.418, 10], tiles=3, tilings=2, actions=2)
    return fpi.PAC(features, actions=2, horizon=12, epsilon=1.0, ridge=0.1)


@pytest.fixture
def pressed_while_playing(monkeypatch):
    """Ctrl-C while compiled code plays its second slice."""
    monkeypatch.setattr(engine, "STEPS", 200)
    play, slices = loop.go_on_by_stages, []

    def pressed(*arguments):
        slices.append(arguments)
        if len(slices) == 2:
            press()
        return play(*arguments)

    monkeypatch.setattr(loop, "go_on_by_stages", pressed)


def test_compiled_episodes_stop_where_all_is_stored(pressed_while_playing, tmp_path):
    agent, whole = cartpole(), cartpole()
    with pytest.raises(KeyboardInterrupt):
        compiled.learn(agent, compiled.get("CartPole-v1"), 300, seed=4)
    assert 0 < agent.episodes < 300
    compiled.learn(agent, compiled.get("CartPole-v1"), 300 - agent.episodes)
    compiled.learn(whole, compiled.get("CartPole-v1"), 300, seed=4)
    for name, each in (("agent", agent), ("whole", whole)):
        each.save(tmp_path / name)
    assert (tmp_path / "agent").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_handler_that_saves_finds_the_agent_whole_and_compiled_episodes_go_on(pressed_while_playing, tmp_path):
    agent, path = cartpole(), tmp_path / "agent.fpi"
    before = signal.signal(signal.SIGINT, lambda *_: agent.save(path))
    try:
        compiled.learn(agent, compiled.get("CartPole-v1"), 300, seed=4)
    finally:
        signal.signal(signal.SIGINT, before)
    assert agent.episodes == 300
    saved = fpi.load(path)
    assert 0 < saved.episodes < 300
    compiled.learn(saved, compiled.get("CartPole-v1"), 300 - saved.episodes)
    for name, each in (("agent", agent), ("saved", saved)):
        each.save(tmp_path / name)
    assert (tmp_path / "agent").read_bytes() == (tmp_path / "saved").read_bytes()
