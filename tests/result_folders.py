"""Folders of results as `fpi reproduce` leaves them, with invented numbers."""

import json

import numpy as np

from fpi import model_files
from fpi.experiment.study import probe_episodes

# Reward at the start, at the end, and the share of stale data at the end.
SHAPES = {"exact": (40, 190, 0.0), "last-20": (40, 130, 0.2), "never": (40, 100, 0.4)}
ENVIRONMENTS = {"CartPole-v1": (1.0, 500), "InvertedPendulum-v4": (0.2, 60)}  # reward scale and horizon
LEFT_OPEN = "3 seeds cannot tell whether it earns more than the last 20: `fpi reproduce --full` can."
VERDICTS = ("holds", "not shown: CI includes 0", "contradicted")


def study(name="figure2", settings=None, seeds=3, episodes=1_100):
    """The content of study.json: by default two environments × three ways to freeze."""
    settings = settings or [f"{env}--{freeze}" for env in ENVIRONMENTS for freeze in SHAPES]
    return {
        "name": name,
        "title": "Figure 2: what freezing does",
        "about": "Two tasks, with freezing (`exact`) and without (`never`).",
        "size": "quick",
        "engine": "compiled",
        "command": f"fpi reproduce {name} --quick --engine compiled",
        "seeds": list(range(seeds)),
        "settings": {each: setting(each, episodes) for each in settings},
        "revision": "0123abcd",
        "versions": {"fpi": "0.1.0", "numpy": "2.4.0"},
    }


def setting(name, episodes):
    env, *_, freeze = name.split("--")
    return {
        "env": env,
        "env_args": {},
        "action_grid": [-3.0, -1.0, 1.0, 3.0] if env.startswith("Inverted") else None,
        "features": {"type": "TileCoding", "tiles": 4, "tilings": 4},
        "algorithm": "PAC",
        "arguments": {"horizon": ENVIRONMENTS[env][1], "epsilon": 1.0, "freeze": freeze},
        "episodes": episodes,
    }


def write(folder, content):
    """A finished study: every run with its manifest and its rows."""
    for name, config in content["settings"].items():
        for seed in content["seeds"]:
            write_run(folder / "runs" / f"{name}--seed-{seed:03d}", config, seed)
    claims = [
        {
            "text": f"Exact freezing earns more than none on {env}",
            "verdict": verdict,
            "detail": "+83 (45 to 121), 3 of 3",
        }
        for env, verdict in zip(ENVIRONMENTS, VERDICTS, strict=False)
    ]
    folder.mkdir(exist_ok=True)
    (folder / "study.json").write_text(json.dumps(content))
    last = {name: {"estimate": 187.04, "low": 176.0, "high": 198.0} for name in ("mean", "iqm")}
    settings = {name: {"last": last | {"per_seed": content["seeds"]}} for name in content["settings"]}
    summary = {"claims": claims, "left_open": LEFT_OPEN, "settings": settings}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


def write_run(folder, config, seed):
    chance = np.random.default_rng([seed, len(folder.name)])
    scale, horizon = ENVIRONMENTS[config["env"]]
    first, last, stale = SHAPES[config["arguments"]["freeze"]]
    episodes = config["episodes"]
    done = np.linspace(0, 1, episodes)
    level = scale * (first + (last - first) * (1 - np.exp(-4 * done))) * chance.normal(1, 0.1)
    length = np.clip(chance.normal(level, 0.2 * level), 1, horizon).astype(np.int32)
    ends = np.array(probe_episodes(episodes))
    probes = np.arange(1, 1 + len(ends))
    rows = {
        "return": length.astype(np.float64),
        "length": length,
        "stored_stage": np.where(chance.random(episodes) < 1 - done, length // 2, -1).astype(np.int32),
        "covered_steps": (length * np.sqrt(done)).astype(np.int32),
        "probe.episode": ends,
        "probe.stale": stale * probes / 11,
        "probe.data": np.outer(probes * episodes // 300, 1 + np.arange(horizon) % 7 * 2),
    }
    folder.mkdir(parents=True)
    model_files.write(folder / "rows.safetensors", rows, {"id": folder.name})
    manifest = {
        "id": folder.name,
        "setting": config,
        "seed": seed,
        "engine": "compiled",
        "started": "2026-01-01T10:00:00",
        "finished": "2026-01-01T10:01:00",
        "seconds": 60.0,
        "steps": int(length.sum()),
        "warnings": [],
        "revision": "0123abcd",
        "versions": {"fpi": "0.1.0"},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
