"""What an agent holds."""

import numpy as np


def datasets_of(agent):
    """The data of all stages, level by level."""
    levels = [(level,) for level in range(1, agent.levels + 1)] if hasattr(agent, "levels") else [()]
    return [agent.dataset(stage, *level) for level in levels for stage in range(agent.horizon)]


def assert_same_data(agent, literal):
    """The agent has stored what the literal algorithm has."""
    held = literal.datasets
    cells = list(held.items() if isinstance(held, dict) else enumerate(held))
    for cell, expected in cells:
        data = agent.dataset(*np.atleast_1d(cell).tolist())
        np.testing.assert_array_equal(data.actions, expected.actions)
        np.testing.assert_array_equal(data.episodes, expected.episodes)
        np.testing.assert_allclose(data.targets, literal.unit * np.array(expected.targets), rtol=0, atol=1e-11)
        if len(expected):
            np.testing.assert_array_equal(data.features, np.array(expected.features, np.float64))
    assert agent.data_stored == sum(len(expected) for _, expected in cells)
