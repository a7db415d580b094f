"""What an agent has to learn, and how long that takes, in words."""

from __future__ import annotations

from typing import Any

from fpi.algorithms import PAC, Agent, Regret
from fpi.algorithms.theory import covering_data
from fpi.features import Fourier, TileCoding
from fpi.function_classes import FiniteClass, LinearBall
from fpi.modelling.experience import Observations


def size_of(features: Any) -> str:
    """How much is to be learned, in words."""
    if isinstance(features, Observations):
        return f"observations of {features.size} entries" if features.states is None else f"{features.states} states"
    if isinstance(features, FiniteClass):
        return f"{features.size:,} candidate functions"
    kind = type(features.features if isinstance(features, LinearBall) else features).__name__
    return f"{features.dim:,} features ({kind})"


def covering_estimate(agent: Agent, what: str = "Covering everything") -> str:
    """How many episodes covering all states takes, roughly, and what would shorten it; empty if unknown."""
    further, shorter = "", {TileCoding: ["fewer --tiles or --tilings"], Fourier: ["a lower --order"]}
    if isinstance(agent, PAC):
        epsilon, ridge = agent.settings.epsilon, agent.settings.ridge
    elif isinstance(agent, Regret):
        epsilon, ridge = 0.5, agent.ridge
        what, further = f"{what} at level 1", ", each further level four times as many"
    else:
        return ""
    dim, horizon = agent.features.dim, agent.horizon
    data = covering_data(dim, ridge, epsilon, overlapping=getattr(agent.features, "nnz", 0) != 1)
    if not data:
        return ""
    data *= 1.5 if isinstance(agent.features, Fourier) else 1.0  # as random states took; see `covering_data`
    ways = shorter.get(type(agent.features), [])
    ways += ["a shorter --horizon"] * (horizon > 1) + ["a larger --epsilon"] * (not further and epsilon < 1)
    return (
        f"{what} takes at most about {horizon * data:,.0f} episodes ({horizon:,} steps × {dim:,} features × "
        f"{data / dim:.3g} data each){further}; play improves long before."
    ) + (f" What shortens it: {', '.join(ways)}." if ways else "")
