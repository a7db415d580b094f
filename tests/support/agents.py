"""What an agent holds."""


def datasets_of(agent):
    """The data of all stages, level by level."""
    levels = [(level,) for level in range(1, agent.levels + 1)] if hasattr(agent, "levels") else [()]
    return [agent.dataset(stage, *level) for level in levels for stage in range(agent.horizon)]
