"""The study of every domain: runs that end when they are solved, and its table."""

import importlib.util
import sys
import types
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from typer.testing import CliRunner

from fpi import domain_studies, studies
from fpi.cli.main import app
from fpi.domain_studies import DOMAINS, Domain, Learner
from fpi.envs import make_environment
from fpi.errors import DamagedResults, EnvironmentMismatch, InputError, MissingExtra
from fpi.experiment import run_study
from fpi.experiment.backends import Local
from fpi.experiment.run import run_slice
from fpi.experiment.study import Job
from fpi.report import judged, read
from fpi.run_config import JudgeSettings, RunConfig

LAKE = RunConfig(
    env="FrozenLake-v1",
    env_args={"is_slippery": False, "max_episode_steps": 12},
    episodes=60,
    algorithm="ModelFPI",
    judge=JudgeSettings(threshold=1.0, starts=1, every=4, seconds=60.0),
)


def played(setting, seconds=100.0):
    job, checkpoint = Job("lake", setting.complete(), 0, "gymnasium"), None
    while checkpoint is None or not checkpoint.finished:
        checkpoint = run_slice(job, checkpoint, seconds)
    return checkpoint


def test_a_run_ends_at_the_judgement_that_reaches_the_threshold():
    rows = played(LAKE).rows
    means = rows["judge.mean"].tolist()
    assert means[-1] == 1.0 and max(means[:-1]) < 1.0
    assert rows["judge.episode"].tolist() == list(range(4, 4 * len(means) + 1, 4))
    assert len(rows["return"]) == 4 * len(means) < LAKE.episodes
    assert rows["random"].shape == (10,) and set(rows["random"]) <= {0.0, 1.0}


def test_where_a_run_is_cut_does_not_matter():
    whole, cut = played(LAKE), played(LAKE, 1e-9)
    assert whole.rows.keys() == cut.rows.keys()
    assert all(np.array_equal(whole.rows[name], cut.rows[name]) for name in whole.rows)
    assert cut.meta["steps"] == whole.rows["length"].sum()


@pytest.mark.parametrize(("episodes", "seconds", "played_then"), [(6, 60.0, 6), (60, 1e-9, 4)])
def test_a_run_that_is_not_solved_ends_with_its_episodes_or_its_seconds(episodes, seconds, played_then):
    given = replace(LAKE, episodes=episodes, judge=replace(LAKE.judge, threshold=2.0, seconds=seconds))
    rows = played(given).rows
    assert len(rows["return"]) == played_then == rows["judge.episode"][-1]


def test_the_environment_may_be_another_when_it_is_judged():
    given = replace(LAKE, judge=replace(LAKE.judge, env_args={"max_episode_steps": 3}))
    with pytest.raises(EnvironmentMismatch, match="time limit of 3 steps"):
        played(given)


@pytest.fixture
def small(monkeypatch):
    """A study of two domains, one of which needs what is not there."""
    learner = {"ModelFPI": Learner("ModelFPI", 60, 4)}
    lake = Domain("toy text", LAKE.env, 1.0, learner, LAKE.env_args, starts=1, peers="PPO 9", quick=True)
    hard = replace(lake, threshold=2.0, learners={"ModelFPI": Learner("ModelFPI", 4, 2)})
    nowhere = replace(lake, kind="bsuite", needs=("no_such_module", "bsuite"))
    monkeypatch.setattr(domain_studies, "DOMAINS", {"lake": lake, "hard": hard, "nowhere": nowhere})
    monkeypatch.setattr(judged, "DOMAINS", domain_studies.DOMAINS)
    return studies.NAMED["domains"]("quick")


def test_the_table_says_what_came_out_and_what_to_install(small, tmp_path):
    assert list(small.settings) == ["lake--ModelFPI", "hard--ModelFPI"] and len(small.seeds) == 2
    run_study(small, tmp_path, backend=Local(1, start="fork"))
    rows = judged.kinds(read(tmp_path))
    lake, hard = rows["toy text"]
    episodes = [len(run.rows["return"]) for run in read(tmp_path).settings[0].runs]
    assert lake[:3] == ("lake (1)", "ModelFPI", "2 of 2") and lake[3].startswith(f"{np.median(episodes):g}")
    assert lake[5] == "1" and lake[-1] == "PPO 9"
    assert hard[2:6] == ("0 of 2", "not solved in 4", "", "0")
    assert rows["bsuite"][0][2] == 'not run: pip install "frozen-policy-iteration[bsuite]"'
    page, table = judged.write(read(tmp_path))
    assert "not run: pip install" in page.read_text() and table.read_text().count("\n| lake (1) | ModelFPI |") == 1


def test_rows_that_do_not_belong_together_are_damaged(small, tmp_path):
    from fpi import model_files

    run_study(small, tmp_path, backend=Local(1, start="fork"))
    path = tmp_path / "runs" / "hard--ModelFPI--seed-000" / "rows.safetensors"
    rows, meta = model_files.read(path)
    model_files.write(path, rows | {"judge.episode": np.array([2, 3])}, meta)
    with pytest.raises(DamagedResults, match="not those of episodes"):
        read(tmp_path)


@pytest.mark.process
def test_the_command_shows_the_table(small, tmp_path):
    told = CliRunner().invoke(app, ["reproduce", "domains", "--quick", "--workers", "1", "--out", str(tmp_path)])
    assert told.exit_code == 0, told.output
    assert "toy text" in told.output and "2 of 2" in told.output and "not solved in" in told.output
    assert 'nowhere, ModelFPI: not run: pip install "frozen-policy-iteration[bsuite]"' in " ".join(told.output.split())
    assert (tmp_path / "page.html").exists() and (tmp_path / "table.md").exists()


def test_studies_of_ones_own_have_no_judge():
    judge = {"judge": {"threshold": 1, "starts": 1, "every": 1, "seconds": 1}}
    lake = {"env": "FrozenLake-v1", "episodes": 4}
    for content in (lake | judge, lake | {"settings": {"a": judge}}):
        with pytest.raises(InputError, match="judge: unknown field"):
            studies.from_data("own", content)


def test_a_judge_is_checked():
    with pytest.raises(InputError, match=r"judge\.every is 0"):
        JudgeSettings(threshold=1.0, starts=1, every=0, seconds=1.0)
    assert RunConfig.from_data(LAKE.to_data()) == LAKE and "judge" not in replace(LAKE, judge=None).to_data()


@pytest.mark.parametrize("name", DOMAINS)
def test_every_setting_fits_its_environment(name):
    study = studies.NAMED["domains"]("default")
    mine = {label: each for label, each in study.settings.items() if label.startswith(f"{name}--")}
    needs = DOMAINS[name].needs
    assert bool(mine) == (needs is None or importlib.util.find_spec(needs[0]) is not None)
    for setting in mine.values():
        whole = setting.of_seed(1).complete()
        assert whole.make_agent().horizon == whole.arguments["horizon"]


class Game(gym.Env):
    """128 bytes, the first of which counts steps, and the second what was pressed last."""

    observation_space, action_space = gym.spaces.Box(0, 255, (128,), np.uint8), gym.spaces.Discrete(18)

    def __init__(self, obs_type, repeat_action_probability, frameskip):
        assert (obs_type, repeat_action_probability) == ("ram", 0)
        self.memory, self.frameskip = np.zeros(128, np.uint8), frameskip

    def reset(self, *, seed=None, options=None):
        self.memory[:] = 0
        return self.memory.copy(), {}

    def step(self, action):
        self.memory[:2] = (int(self.memory[0]) + self.frameskip) % 256, action
        return self.memory.copy(), 1.0, False, False, {}


def test_an_atari_state_is_the_decision_and_cells_of_bytes(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", types.ModuleType("ale_py"))
    gym.register("ALE/Fake-v5", entry_point=Game)
    arguments = {"game": "Fake", "memory": [[0, 100], [1, 16]], "moves": [17, 3], "frameskip": 150, "decisions": 2}
    env = make_environment("fpi.adapters:ALE/Cells-v0", arguments, None)
    assert env.observation_space.n == 3 * 3 * 16 and env.action_space.n == 2
    assert env.reset(seed=0)[0] == 0
    assert env.step(0)[:4] == ((1 * 3 + 1) * 16 + 1, 1.0, False, False)  # 150 of 256, 17 pressed
    assert env.step(1)[:4] == ((2 * 3 + 0) * 16 + 0, 1.0, False, True)  # 300 is 44 in a byte, 3 pressed


def test_without_ale_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(MissingExtra, match=r"frozen-policy-iteration\[atari\]"):
        make_environment("fpi.adapters:ALE/Cells-v0", dict(DOMAINS["Freeway"].env_args), None)


def test_deep_sea_is_bsuites_with_numbered_cells(monkeypatch):
    """In the place of bsuite, which need not be there, a sea whose boards are known."""

    class Sea:
        def __init__(self, size, mapping_seed):
            assert (size, mapping_seed) == (4, 7)

        def _seen(self, cell, reward, last):
            board = np.zeros((4, 4))
            board.flat[cell] = 1.0
            return types.SimpleNamespace(observation=board, reward=reward, last=lambda: last)

        def reset(self):
            return self._seen(0, None, False)

        def step(self, action):
            return self._seen(5 if action else 4, -0.01 * action, bool(action))

    monkeypatch.setitem(sys.modules, "bsuite.environments.deep_sea", types.SimpleNamespace(DeepSea=Sea))
    env = make_environment("fpi.adapters:bsuite/deep_sea-v0", {"size": 4, "seed": 7}, None)
    assert env.reset()[0] == 0 and env.observation_space.n == 16
    assert env.step(0)[:4] == (4, 0.0, False, False) and env.step(1)[:4] == (5, -0.01, True, False)
