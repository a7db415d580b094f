"""CartPole-v1, operation by operation as Gymnasium computes it: the same bits."""

import numpy as np
from gymnasium.spaces import Box

from fpi._kernels import jit
from fpi.compiled.env import CompiledEnv

GRAVITY = 9.8
POLE = 0.1  # mass
TOTAL = POLE + 1.0  # with the cart
LENGTH = 0.5  # half the pole
TORQUE = POLE * LENGTH
SECONDS = 0.02  # a step
LARGEST_ANGLE = 12 * 2 * np.pi / 360
LARGEST_POSITION = 2.4


@jit
def observe(state, observation):
    for i in range(4):
        observation[i] = np.float32(state[i])  # Gymnasium shows single precision of its double


@jit
def reset(rng, state, observation):
    for i in range(4):
        state[i] = rng.uniform(-0.05, 0.05)
    observe(state, observation)


@jit
def step(state, move, observation):
    x, x_dot, theta, theta_dot = state
    force = 10.0 if move[0] == 1.0 else -10.0
    cos, sin = np.cos(theta), np.sin(theta)
    push = (force + TORQUE * (theta_dot * theta_dot) * sin) / TOTAL
    theta_acc = (GRAVITY * sin - cos * push) / (LENGTH * (4.0 / 3.0 - POLE * (cos * cos) / TOTAL))
    x_acc = push - TORQUE * theta_acc * cos / TOTAL
    state[0] = x + SECONDS * x_dot
    state[1] = x_dot + SECONDS * x_acc
    state[2] = theta + SECONDS * theta_dot
    state[3] = theta_dot + SECONDS * theta_acc
    observe(state, observation)
    return 1.0, abs(state[0]) > LARGEST_POSITION or abs(state[2]) > LARGEST_ANGLE


HIGH = np.array([2 * LARGEST_POSITION, np.inf, 2 * LARGEST_ANGLE, np.inf], np.float32)
COMPILED_ENV = CompiledEnv(
    "CartPole-v1", reset, step, state=4, observations=Box(-HIGH, HIGH), env_actions=[0, 1], time_limit=500
)
