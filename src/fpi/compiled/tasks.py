"""The compiled environments of the paper's experiments: CartPole-v1 and InvertedPendulum-v4."""

import numpy as np
from gymnasium.spaces import Box

from fpi._compiling import jit, jit_part
from fpi.compiled.env import CompiledEnv
from fpi.kernels.numerics import put

# --- CartPole-v1, operation by operation as Gymnasium computes it: the same bits --------------------------------------

LARGEST_POSITION = 2.4
LARGEST_ANGLE = 12 * 2 * np.pi / 360


@jit_part
def show_cartpole(state, observation):
    for i in range(4):
        observation[i] = np.float32(state[i])  # Gymnasium shows single precision of its double


@jit
def reset_cartpole(rng, state, observation):
    for i in range(4):
        state[i] = rng.uniform(-0.05, 0.05)
    show_cartpole(state, observation)


@jit
def step_cartpole(state, action, observation):
    gravity, pole, length, seconds = 9.8, 0.1, 0.5, 0.02  # mass of the pole, half its length, time of a step
    total, torque = pole + 1.0, pole * length
    x, x_dot, theta, theta_dot = state
    force = 10.0 if action[0] == 1.0 else -10.0
    cos, sin = np.cos(theta), np.sin(theta)
    push = (force + torque * (theta_dot * theta_dot) * sin) / total
    theta_acc = (gravity * sin - cos * push) / (length * (4.0 / 3.0 - pole * (cos * cos) / total))
    x_acc = push - torque * theta_acc * cos / total
    state[0] = x + seconds * x_dot
    state[1] = x_dot + seconds * x_acc
    state[2] = theta + seconds * theta_dot
    state[3] = theta_dot + seconds * theta_acc
    show_cartpole(state, observation)
    return 1.0, abs(state[0]) > LARGEST_POSITION or abs(state[2]) > LARGEST_ANGLE


HIGH = np.array([2 * LARGEST_POSITION, np.inf, 2 * LARGEST_ANGLE, np.inf], np.float32)
CARTPOLE = CompiledEnv(
    "CartPole-v1",
    reset_cartpole,
    step_cartpole,
    state=4,
    observations=Box(-HIGH, HIGH),
    env_actions=[0, 1],
    time_limit=500,
)

# --- InvertedPendulum-v4: a cart on a rail and a pole, by the equations that MuJoCo solves for its model --------------
#
# MuJoCo finds accelerations by general algorithms, here they are written out; both integrate by the same Runge-Kutta
# steps. Observations agree to about 1e-13 a step, not to the last bit.

# The bodies of inverted_pendulum.xml as MuJoCo measures its capsules: mass, middle of the pole, inertia around it.
CART = 10.47197551196598
POLE = 5.018591641363306
MIDDLE_X, MIDDLE_Z = 0.0005, 0.3
INERTIA = 0.1887497668730885
GRAVITY = 9.81
DAMPING = 1.0
GEAR = 100.0
STRONGEST = 3.0
SECONDS = 0.02
FRAMES = 2  # integration steps per action
# The ends of the rail are soft: a constraint pulls the cart back once it is beyond. Its stiffness and damping follow
# from the default time constant, which MuJoCo raises to two integration steps.
END = 1.0
TIME_CONSTANT = 2 * SECONDS
SOFTEST, HARDEST, FULL_AT = 0.9, 0.95, 0.001  # impedance at the end, farther out, and how far
STIFFNESS = 1.0 / (HARDEST * HARDEST * TIME_CONSTANT * TIME_CONSTANT)
FRICTION = 2.0 / (HARDEST * TIME_CONSTANT)
INVERSE_WEIGHT = 0.08367433805859587  # of the cart in the middle of the rail


@jit
def accelerations(x, theta, x_dot, theta_dot, force):
    sin, cos = np.sin(theta), np.cos(theta)
    across = cos * MIDDLE_X + sin * MIDDLE_Z  # the middle of the pole, seen from the hinge
    up = cos * MIDDLE_Z - sin * MIDDLE_X
    m11 = CART + POLE
    m12 = POLE * up
    m22 = INERTIA + POLE * (MIDDLE_X * MIDDLE_X + MIDDLE_Z * MIDDLE_Z)
    f1 = force - DAMPING * x_dot + POLE * theta_dot * theta_dot * across
    f2 = POLE * GRAVITY * across - DAMPING * theta_dot
    det = m11 * m22 - m12 * m12
    x_acc = (m22 * f1 - m12 * f2) / det
    theta_acc = (m11 * f2 - m12 * f1) / det
    beyond = abs(x) - END
    if beyond > 0.0:
        side = -1.0 if x > 0.0 else 1.0  # where the rail pushes
        impedance = HARDEST
        share = beyond / FULL_AT
        if share < 1.0:
            rise = 2.0 * share * share if share <= 0.5 else 1.0 - 2.0 * (1.0 - share) * (1.0 - share)
            impedance = SOFTEST + rise * (HARDEST - SOFTEST)
        wanted = STIFFNESS * impedance * beyond - FRICTION * side * x_dot
        response = m22 / det
        push = (wanted - side * x_acc) / (response + (1.0 - impedance) / impedance * INVERSE_WEIGHT)
        if push > 0.0:
            x_acc += side * push * response
            theta_acc -= side * push * m12 / det
    return x_acc, theta_acc


@jit_part
def integrate(state, force):
    """The classical Runge-Kutta step."""
    x, theta, x_dot, theta_dot = state
    half = 0.5 * SECONDS
    a1, b1 = accelerations(x, theta, x_dot, theta_dot, force)
    v2, w2 = x_dot + half * a1, theta_dot + half * b1
    a2, b2 = accelerations(x + half * x_dot, theta + half * theta_dot, v2, w2, force)
    v3, w3 = x_dot + half * a2, theta_dot + half * b2
    a3, b3 = accelerations(x + half * v2, theta + half * w2, v3, w3, force)
    v4, w4 = x_dot + SECONDS * a3, theta_dot + SECONDS * b3
    a4, b4 = accelerations(x + SECONDS * v3, theta + SECONDS * w3, v4, w4, force)
    state[0] = x + SECONDS * ((x_dot + v4) / 6.0 + (v2 + v3) / 3.0)
    state[1] = theta + SECONDS * ((theta_dot + w4) / 6.0 + (w2 + w3) / 3.0)
    state[2] = x_dot + SECONDS * ((a1 + a4) / 6.0 + (a2 + a3) / 3.0)
    state[3] = theta_dot + SECONDS * ((b1 + b4) / 6.0 + (b2 + b3) / 3.0)


@jit
def reset_pendulum(rng, state, observation):
    for i in range(4):
        state[i] = rng.uniform(-0.01, 0.01)
    put(observation, state)


@jit
def step_pendulum(state, action, observation):
    force = GEAR * min(max(action[0], -STRONGEST), STRONGEST)
    for _ in range(FRAMES):
        integrate(state, force)
    put(observation, state)
    return 1.0, not (np.isfinite(state).all() and abs(state[1]) <= 0.2)


INVERTED_PENDULUM = CompiledEnv(
    "InvertedPendulum-v4",
    reset_pendulum,
    step_pendulum,
    state=4,
    observations=Box(-np.inf, np.inf, (4,), np.float64),
    env_actions=[-3, -1, 1, 3],
    time_limit=1000,
    agrees_for=60,  # see docs/compiled.md: a falling pole makes the last digits grow
)
