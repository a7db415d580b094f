"""Random layered MDPs with deterministic transitions, as Gymnasium environments, and features for them."""

import gymnasium as gym
import numpy as np


class LayeredMDP(gym.Env):
    """Stage h has its own states; an action moves to one fixed state of stage h + 1, or ends the episode.

    `states` is the number of states per layer (one number, or one per stage); the start state is drawn
    uniformly from layer 0. Each (stage, state, action) has a mean in [0, 1]; rewards are drawn around it
    ("bernoulli", "uniform", "integer") or equal to it ("fixed"), and laid over `reward_range`.
    Observations are the state's number in its layer ("id") or a point of the unit cube ("point").
    """

    def __init__(
        self,
        seed,
        *,
        horizon=4,
        states=12,
        actions=3,
        early_end=0.0,
        rewards="bernoulli",
        reward_range=(0, 1),
        observe="id",
        dims=2,
    ):
        rng = np.random.default_rng(seed)
        sizes = [states] * horizon if isinstance(states, int) else list(states)
        widest, shape = max(sizes), (horizon, max(sizes), actions)
        self.horizon, self.sizes, self.actions, self.dims = horizon, sizes, actions, dims
        self.successor = np.stack([rng.integers(size, size=shape[1:]) for size in [*sizes[1:], 1]])
        self.ends = rng.random(shape) < early_end
        self.ends[-1] = True
        self.mean = rng.random(shape)
        self.points = rng.random((horizon, widest, dims))
        self.rewards, (self.low, self.high), self.observe = rewards, reward_range, observe
        self.action_space = gym.spaces.Discrete(actions)
        self.observation_space = (
            gym.spaces.Discrete(widest) if observe == "id" else gym.spaces.Box(0.0, 1.0, (dims,), dtype=np.float64)
        )

    def observation(self, stage, state):
        return int(state) if self.observe == "id" else self.points[stage, state].copy()

    def draw(self, mean):
        span = self.high - self.low
        if self.rewards == "bernoulli":
            return self.low + span * float(self.np_random.random() < mean)
        if self.rewards == "uniform":
            return self.low + span * (mean + min(mean, 1 - mean) * self.np_random.uniform(-1, 1))
        if self.rewards == "integer":
            return int(self.low + self.np_random.binomial(span, mean))
        return self.low + span * float(mean)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.stage, self.state = 0, self.np_random.integers(self.sizes[0])
        return self.observation(0, self.state), {}

    def step(self, action):
        here = self.stage, self.state, action
        reward, terminated = self.draw(self.mean[here]), bool(self.ends[here])
        self.state = self.successor[here]
        self.stage = min(self.stage + 1, self.horizon - 1)
        return self.observation(self.stage, self.state), reward, terminated, False, {}


def dense(mdp, dim, seed=0, *, rank=None):
    """Random rows of norm 1/2 to 1; of the given rank if asked."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(mdp.horizon, max(mdp.sizes), mdp.actions, rank or dim))
    if rank:
        rows = rows @ np.linalg.qr(rng.normal(size=(dim, rank)))[0].T
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True) * rng.uniform(0.5, 1, (*rows.shape[:-1], 1))


def one_hot(mdp):
    """One direction per (state, action)."""
    pairs = max(mdp.sizes) * mdp.actions
    table = np.eye(pairs).reshape(max(mdp.sizes), mdp.actions, pairs)
    return np.broadcast_to(table, (mdp.horizon, *table.shape))


def duplicated(table):
    """The last action is a copy of the first in every state, and of all others in every third state."""
    table = table.copy()
    table[:, :, -1] = table[:, :, 0]
    table[:, ::3] = table[:, ::3, :1]
    return table


def shrunk(table, scale):
    """A third of the states have zero features, a third tiny ones, and one action of the rest is zero."""
    table = table.copy()
    table[:, ::3] = 0.0
    table[:, 1::3] *= scale
    table[:, 2::3, 0] = 0.0
    return table


def of_stage(table):
    """A table as a plain feature function of observation and stage."""

    def features(observation, stage):
        return table[stage, observation]

    return features


def of_observation(table):
    """The table of stage 0 as a plain feature function of the observation alone."""

    def features(observation):
        return table[0, observation]

    return features
