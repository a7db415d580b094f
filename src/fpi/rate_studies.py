"""Studies of rates: what the theorems say of losses, time and memory, on testbeds whose losses are known exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fpi import testbeds
from fpi.algorithms import PAC, Regret
from fpi.algorithms.theory import Constants
from fpi.experiment.study import SEPARATOR, Claim, Study
from fpi.run_config import TESTBED, RunConfig

MANY = 20  # seeds of the full size
IN_NAMES = {"|A|": "actions", "1/ε": "inverse-epsilon", "1/ε̄": "inverse-loss"}  # of settings, which name folders
FILLED = 1.2  # runs are longer by this than what they count goes on


def on_testbed(family: str, world: Mapping[str, Any], episodes: int, algorithm: str, **arguments: Any) -> RunConfig:
    """A run on a testbed with its own features, and the agent told all that the theory takes for known."""
    testbed = testbeds.make(family, **world)
    known = {
        "actions": testbed.actions,
        "horizon": testbed.horizon,
        "ridge": 1 / testbed.horizon,
        "theta_bound": testbed.theta_bound,
        "misspecification": testbed.misspecification,
        "explore": "widest",
    }
    return RunConfig(
        env=f"fpi/{family}-v0",
        env_args=world,
        episodes=episodes,
        features={"type": TESTBED},
        algorithm=algorithm,
        arguments={**known, **arguments},
    )


def theory_of(setting: RunConfig) -> Constants:
    """The constants of the analysis for a setting on a testbed."""
    agent = setting.make_agent()
    assert isinstance(agent, PAC | Regret)
    return agent.theory


def _to_lose(loss: float, family: str, world: Mapping[str, Any]) -> tuple[RunConfig, float]:
    """PAC with the ε for which losses are at most this at last, played until all is covered; and what Theorem 1 allows.

    A direction takes 1/ε² data, and a stage has as many as features.
    """
    theory = theory_of(on_testbed(family, world, 1, "PAC"))
    epsilon = theory.epsilon_for(loss)
    episodes = math.ceil(FILLED * theory.horizon * theory.dim / epsilon**2)
    setting = on_testbed(family, world, episodes, "PAC", epsilon=epsilon)
    return setting, theory.episodes_bound(epsilon)


def theorem1(size: str) -> Study:
    """Episodes that lose more than ε̄, against d, H and 1/ε̄."""
    seeds, loss, dims, stages, losses = {
        "quick": (2, 0.5, (2, 4), (1, 2), (0.8, 0.6)),
        "default": (5, 0.25, (3, 4, 6, 8, 12), (1, 2, 3, 4), (0.8, 0.56, 0.4, 0.28, 0.2)),
        "full": (MANY, 0.25, (3, 4, 6, 8, 12, 16), (1, 2, 3, 4, 5), (0.8, 0.56, 0.4, 0.28, 0.2, 0.14)),
    }[size]
    lost, explored = "episodes that lose more", "episodes that explore"
    families: dict[str, tuple[dict[float, tuple[str, dict[str, Any], float]], float, str]] = {
        "d": ({d: ("LinBandit", {"d": d, "K": 10}, loss) for d in dims}, 2, "d²"),
        "H": ({h: ("DeepSea", {"N": h}, 0.5) for h in stages}, 4, "H⁴"),
        "1/ε̄": ({1 / each: ("DeepSea", {"N": 2}, each) for each in losses}, 2, "1/ε̄²"),
    }
    settings: dict[str, RunConfig] = {}
    claims: list[Claim] = []
    for against, (worlds, exponent, paper) in families.items():
        names, allowed = [], []
        for x, (family, world, most) in worlds.items():
            names.append(f"{family}-{IN_NAMES.get(against, against)}{SEPARATOR}{x:.3g}")
            settings[names[-1]], bound = _to_lose(most, family, world)
            allowed.append(bound)
        about = {"settings": names, "against": against, "x": list(worlds), "exponent": exponent, "paper": paper}
        counted = {lost: [most for *_, most in worlds.values()]} | ({explored: []} if against == "d" else {})
        for of, limits in counted.items():
            text = f"{family}, {of}{' than ε̄' if limits else ''}: as {paper} at most"
            claims.append(Claim(text, "rate", {**about, "of": of, "allowed": allowed, "losses": limits}, 2, 0, SLOPE))
    return Study(
        name="theorem1",
        title="Theorem 1: how many episodes lose more than ε̄",
        settings=settings,
        seeds=tuple(range(seeds)),
        about="FPI-PAC with the ε that the theory asks for to lose at most ε̄. LinBandit has contexts that never come "
        "back, DeepSea one long way to a treasure.",
        claims=tuple(claims),
        size=size,
    )


SLOPE = "whether anything grows no faster than the paper says"


def theorem2(size: str) -> Study:
    """Regret against T at two stages, of the worst gap, and what misspecification costs; sound constants and scaled."""
    seeds = {"quick": 2, "default": 5, "full": MANY}[size]
    if size == "quick":
        kappas, played = [0.4, 0.2], 200
        lengths = {1.0: (200, [1.0]), SCALE: (320, [1.0, 0.5])}  # of runs, with the gaps that go within them
    else:
        kappas, played = [0.4, 0.2, 0.1, 0.05, 0.025], 10_000
        lengths = {1.0: (90_000, [1.0, 0.5, 0.25]), SCALE: (20_000, [1.0, 0.5, 0.25, 0.125])}
    settings: dict[str, RunConfig] = {}
    claims: list[Claim] = []
    for scale, words in ((1.0, "sound"), (SCALE, f"scaled × {SCALE:g}")):
        panel, names, (length, gaps) = f"DeepSea, {words}", [], lengths[scale]
        for gap in gaps:
            names.append(f"{panel.replace(', ', '-').replace(' × ', '-')}{SEPARATOR}gap-{gap:g}")
            settings[names[-1]] = on_testbed("DeepSea", {"N": 2, "distract": 1 - gap}, length, "Regret", scale=scale)
        begins = first_elimination(settings[names[0]], gaps[0])
        if begins < length:
            x = np.unique(np.geomspace(begins, length, 40).astype(int)).tolist()
            about = {"settings": names, "x": x, "exponent": 0.5, "paper": "√T"}
            claims.append(Claim(f"{panel}, worst gap: regret as √T at most", "regret", about, 2, 0, SLOPE))
        panel, names = f"HubNet, {words}", []
        for kappa in kappas:
            names.append(f"{panel.replace(', ', '-').replace(' × ', '-')}{SEPARATOR}kappa-{kappa:g}")
            world = {"B": 1, "m": 2, "K": 4, "p": 1, "kappa": kappa}
            settings[names[-1]] = on_testbed("HubNet", world, played, "Regret", scale=scale)
        about = {"settings": names, "of": "loss per episode at the end", "against": "κ", "x": kappas}
        about |= {"exponent": 1, "paper": "√d H²κ"}
        claims.append(Claim(f"{panel}, at the end: loss as κ at most", "rate", about, 2, 0, SLOPE))
    return Study(
        name="theorem2",
        title="Theorem 2: regret at two stages against T and κ",
        settings=settings,
        seeds=tuple(range(seeds)),
        about="FPI-Regret with the constants of the theory (sound), and with smaller ones (scaled), which no theorem "
        "covers. DeepSea has two actions a stage that differ by a gap; HubNet has contexts, and means that features "
        "miss by up to κ.",
        claims=tuple(claims),
        size=size,
    )


SCALE = 0.2


def first_elimination(setting: RunConfig, gap: float) -> int:
    """About how many episodes pass before an action that loses this much can go: levels up to the first with
    2HΔ_l below the gap must be full, and a direction takes 4^l data."""
    theory = theory_of(setting)
    level = next(each for each in range(1, theory.max_level) if 2 * theory.horizon * theory.level_gap(each) < gap)
    return int(theory.horizon * theory.dim * (4 ** (level + 1) - 4) // 3)


def cost(size: str) -> Study:
    """Processor time and memory of both algorithms, against T, H, |A|, d and 1/ε."""
    seeds, lengths, stages, actions, dims, epsilons, played = {
        "quick": (2, (100, 200), (2, 4), (4, 8), (4, 8), (0.4, 0.2), 200),
        "default": (5, (500, 1_000, 2_000, 4_000), (2, 4, 8, 16), *2 * ((8, 16, 32, 64),), (0.4, 0.2, 0.1), 1_000),
        "full": (5, (4_000, 8_000, 16_000, 32_000), (2, 4, 8, 16), *2 * ((8, 16, 32, 64),), (0.2, 0.1, 0.05), 4_000),
    }[size]
    bandit, hubs = {"d": 8, "K": 8}, {"m": 4, "K": 8}
    seconds, held = "processor seconds", "bytes"
    settings: dict[str, RunConfig] = {}
    claims: list[Claim] = []

    def compare(
        algorithm: str, against: str, paper: Mapping[str, tuple[float, str]], runs: Mapping[float, Any]
    ) -> None:
        """`runs` has family, world, episodes and arguments at every x, `paper` an exponent for what is measured."""
        names = [f"{algorithm}-{IN_NAMES.get(against, against)}{SEPARATOR}{x:g}" for x in runs]
        for name, (family, world, episodes, arguments) in zip(names, runs.values(), strict=True):
            settings[name] = on_testbed(family, world, episodes, algorithm, **arguments)
        for of, (exponent, said) in paper.items():
            about = {"settings": names, "of": of, "against": against, "x": list(runs), "exponent": exponent}
            about |= {"paper": said}
            claims.append(Claim(f"{algorithm}, {of} against {against}: as {said} at most", "rate", about, 2, 0, SLOPE))

    for algorithm, most in (("PAC", 1), ("Regret", 2)):
        rule: dict[str, Any] = {"epsilon": 0.05} if algorithm == "PAC" else {}
        in_time = {seconds: (most, "T" if most == 1 else "T²"), **({} if most == 1 else {held: (1, "T")})}
        compare(algorithm, "T", in_time, {t: ("LinBandit", bandit, t, rule) for t in lengths})
        runs: dict[float, Any] = {h: ("HubNet", {**hubs, "B": h - 1}, played, rule) for h in stages}
        compare(algorithm, "H", {seconds: (1, "H")}, runs)
        runs = {k: ("LinBandit", {**bandit, "K": k}, played, rule) for k in actions}
        compare(algorithm, "|A|", {seconds: (1, "|A|")}, runs)
        runs = {d: ("LinBandit", {**bandit, "d": d}, played, rule) for d in dims}
        compare(algorithm, "d", {seconds: (2, "d² (poly(d) in the paper)")}, runs)
    by_accuracy = {1 / each: ("LinBandit", bandit, played, {"epsilon": each}) for each in epsilons}
    compare("PAC", "1/ε", {seconds: (2, "1/ε²"), held: (2, "1/ε²")}, by_accuracy)
    return Study(
        name="cost",
        title="Time and space of PAC and Regret",
        settings=settings,
        seeds=tuple(range(seeds)),
        about="Processor time that an agent takes to decide and to store, without its environment, and the bytes of "
        "its data and regressions at the end.",
        claims=tuple(claims),
        size=size,
    )
