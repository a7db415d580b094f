"""Logs: what they hold, what they survive, and that a resumed run does not repeat itself."""

import errno
import json
import sys
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import fpi
from fpi.errors import InputError, MissingExtra, SaveError
from fpi.training import Episode


def episode(number, ret=1.0, data=0):
    return Episode(
        number=number,
        agent=SimpleNamespace(data_stored=data),
        observations=[np.zeros(1)] * 4,
        actions=np.zeros(4, np.int64),
        rewards=np.array([ret, 0, 0, 0]),
        stored_stage=2,
        covered_steps=3,
    )


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def numbers(path):
    return [line["episode"] for line in lines(path)]


@pytest.fixture
def env():
    return gym.make("CartPole-v1")


def new_agent(env):
    features = fpi.TileCoding.for_env(env, tiles=2, tilings=2)
    return fpi.PAC(features, actions=2, horizon=100, epsilon=1.0, ridge=1e-3)


# JSON lines


def test_a_line_tells_of_its_episode(tmp_path, env):
    agent, path, seen = new_agent(env), tmp_path / "metrics.jsonl", []

    def watch(episode):
        log(episode)
        assert len(lines(path)) == episode.number + 1  # on disk at once
        seen.append((episode.covered_steps / len(episode.actions), agent.data_stored))

    with fpi.JsonlLog(path) as log:
        history = agent.learn(env, episodes=40, seed=3, callback=watch)
    table = {name: [line[name] for line in lines(path)] for name in lines(path)[0]}
    seconds = table.pop("seconds")
    frozen, data = zip(*seen, strict=True)
    assert table == {
        "episode": list(range(40)),
        "return": history.returns.tolist(),
        "length": history.lengths.tolist(),
        "stored_stage": history.stored_stage.tolist(),
        "covered_share": list(frozen),
        "data": list(data),
    }
    assert max(frozen) > 0
    assert data[-1] == agent.data_stored > 0
    assert seconds == sorted(seconds) and seconds[0] > 0


def test_a_resumed_run_repeats_no_episode_and_leaves_none_out(tmp_path, env):
    once, twice, model = tmp_path / "once.jsonl", tmp_path / "twice.jsonl", tmp_path / "model.fpi"
    with fpi.JsonlLog(once) as log:
        new_agent(env).learn(env, episodes=20, seed=0, callback=log)
    agent = new_agent(env)
    with fpi.JsonlLog(twice) as log:
        agent.learn(env, episodes=8, seed=0, callback=log)
        agent.save(model)
        agent.learn(env, episodes=4, callback=log)  # these are lost, their lines are not
    before = lines(twice)
    with fpi.JsonlLog(twice) as log:
        fpi.load(model).learn(env, episodes=12, callback=log)
    for expected, found in zip(lines(once), lines(twice), strict=True):
        assert expected | {"seconds": 0} == found | {"seconds": 0}
    assert lines(twice)[:8] == before[:8]
    seconds = [line["seconds"] for line in lines(twice)]
    assert seconds == sorted(seconds)


def test_a_line_that_was_broken_off_is_dropped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with fpi.JsonlLog(path) as log:
        for number in range(3):
            log(episode(number))
    path.write_bytes(path.read_bytes()[:-20])
    with fpi.JsonlLog(path) as log:
        log(episode(3))
    assert numbers(path) == [0, 1, 3]


def test_a_new_run_replaces_an_old_log_only_when_it_has_something_to_say(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with fpi.JsonlLog(path) as log:
        for number in range(3):
            log(episode(number, ret=1.0))
    old = path.read_bytes()
    with fpi.JsonlLog(path):
        pass
    assert path.read_bytes() == old
    with fpi.JsonlLog(path) as log:
        log(episode(0, ret=5.0))
    assert [line["return"] for line in lines(path)] == [5.0]


@pytest.mark.parametrize(
    "content", ["dear diary\n", '{"episode": 0}\n', "[1, 2]\n", "no end of line", '{"episode": 0, "seconds": "x"}\n']
)
def test_a_file_that_is_no_log_is_left_alone(tmp_path, content):
    path = tmp_path / "diary"
    path.write_text(content)
    with pytest.raises(InputError, match="is no log of episodes: its line 1 does not fit.*choose another name"):
        fpi.JsonlLog(path)
    assert path.read_text() == content


@pytest.mark.parametrize("place", ["no/folder/metrics.jsonl", ".", "/dev/zero"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, place):
    with pytest.raises(SaveError, match=rf"Could not write the log .*{place}.*Choose a place"):
        fpi.JsonlLog(tmp_path / place)


def test_a_full_disk_stops_learning_and_loses_no_episode(tmp_path, env):
    class Full:
        def write(self, line):
            raise OSError(errno.ENOSPC, "No space left on device")

        def truncate(self, end): ...

        def seek(self, position): ...

        def __iter__(self):
            return iter(())

    agent, log = new_agent(env), fpi.JsonlLog(tmp_path / "metrics.jsonl")
    log.close()
    log._file = Full()
    with pytest.raises(SaveError, match="No space left on device. The agent keeps what it has learned"):
        agent.learn(env, episodes=5, seed=0, callback=log)
    assert agent.episodes == 1
    agent.learn(env, episodes=4)
    whole = new_agent(env)
    whole.learn(env, episodes=5, seed=0)
    assert agent.training_state == whole.training_state


def test_the_end_of_the_block_closes_the_log(tmp_path):
    with pytest.raises(KeyError), fpi.JsonlLog(tmp_path / "metrics.jsonl") as log:
        raise KeyError
    with pytest.raises(ValueError, match="closed"):
        log(episode(0))


# TensorBoard


def scalars(folder):
    """What TensorBoard itself reads: for every tag the steps and the values."""
    events = EventAccumulator(str(folder))
    events.Reload()
    found = {}
    for tag in events.Tags()["scalars"]:
        found[tag] = {event.step: event.value for event in events.Scalars(tag)}
        assert len(found[tag]) == len(events.Scalars(tag))
    return found


def test_tensorboard_reads_what_the_json_lines_say(tmp_path, env):
    with fpi.JsonlLog(tmp_path / "metrics.jsonl") as text, fpi.TensorBoardLog(tmp_path / "board") as board:

        def both(episode):
            text(episode)
            board(episode)

        new_agent(env).learn(env, episodes=30, seed=1, callback=both)
    found = scalars(tmp_path / "board")
    assert set(found) == {f"episode/{name}" for name in ("return", "length", "stored_stage", "covered_share", "data")}
    for tag, values in found.items():
        expected = [line[tag.removeprefix("episode/")] for line in lines(tmp_path / "metrics.jsonl")]
        assert list(values) == list(range(30))
        assert list(values.values()) == pytest.approx(expected, rel=1e-6)


def test_tensorboard_forgets_episodes_that_are_played_again(tmp_path):
    with fpi.TensorBoardLog(tmp_path) as log:
        for number in range(6):
            log(episode(number, ret=1.0))
    with fpi.TensorBoardLog(tmp_path) as log:
        for number in range(4, 8):
            log(episode(number, ret=2.0))
    assert scalars(tmp_path)["episode/return"] == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 2, 7: 2}


def test_without_tensorboard_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer.event_file_writer", None)
    with pytest.raises(MissingExtra, match=r'pip install "frozen-policy-iteration\[tensorboard\]"'):
        fpi.TensorBoardLog(tmp_path / "board")
    assert not (tmp_path / "board").exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(SaveError, match="Could not write the log .*file.*Choose a place"):
        fpi.TensorBoardLog(tmp_path / "file")
