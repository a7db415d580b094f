"""CartPole with exact freezing and without: a first look at what freezing does, in about two minutes.

`make run` starts it. Every run is the same for the same seed, whatever the number of processes.
"""

import argparse
import multiprocessing
import os
import queue
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table

MODES = {"exact freezing": "exact", "no freezing": "never"}
WINDOW = 1_000  # episodes behind one point of the curves
Curves = dict[tuple[str, int], NDArray[np.float64]]


def train(mode: str, seed: int, episodes: int, reports: Any) -> tuple[NDArray[np.float64], int]:
    """One run; tells how far it is about five times a second."""
    import gymnasium as gym

    import fpi

    env = gym.make("CartPole-v1")
    features = fpi.TileCoding.for_env(env, tiles=4, tilings=4)
    agent = fpi.PAC(features, actions=2, horizon=500, epsilon=1.0, ridge=1e-3, freeze=MODES[mode])
    told = time.monotonic()

    def tell(episode: fpi.learning.Episode) -> None:
        nonlocal told
        if time.monotonic() - told > 0.2 or episode.number + 1 == episodes:
            told = time.monotonic()
            reports.put((mode, seed, episode.number + 1, agent.data_stored))

    returns = agent.learn(env, episodes, seed=seed, callback=tell).returns
    return returns, agent.data_stored


def train_all(seeds: int, episodes: int, console: Console) -> Curves:
    jobs = [(mode, seed) for seed in range(seeds) for mode in MODES]
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[data]:,} data"),
        TimeRemainingColumn(),
    )
    spawn = multiprocessing.get_context("spawn")
    workers = min(len(jobs), os.cpu_count() or 1)
    with spawn.Manager() as manager, ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        reports = manager.Queue()
        with Progress(*columns, console=console) as bar:
            tasks: dict[tuple[str, int], TaskID] = {
                job: bar.add_task(f"{job[0]}, seed {job[1]}", total=episodes, data=0) for job in jobs
            }
            futures = {job: pool.submit(train, *job, episodes, reports) for job in jobs}
            while not all(future.done() for future in futures.values()) or not reports.empty():
                try:
                    mode, seed, done, data = reports.get(timeout=0.2)
                except queue.Empty:
                    continue
                bar.update(tasks[mode, seed], completed=done, data=data)
        return {job: future.result()[0] for job, future in futures.items()}


def show_table(curves: Curves, seeds: int, episodes: int, console: Console) -> None:
    parts = 5
    size = episodes // parts
    table = Table(title=f"mean return over {seeds} seeds, and its range over seeds")
    table.add_column("episodes")
    for mode in MODES:
        table.add_column(mode, justify="right")
    table.add_column("freezing ahead", justify="right")
    for part in range(parts):
        means = {
            mode: np.array([curves[mode, seed][part * size : (part + 1) * size].mean() for seed in range(seeds)])
            for mode in MODES
        }
        ahead = int((means["exact freezing"] > means["no freezing"]).sum())
        table.add_row(
            f"{part * size + 1:,} to {(part + 1) * size:,}",
            *(f"{m.mean():.1f}  ({m.min():.0f} to {m.max():.0f})" for m in means.values()),
            f"in {ahead} of {seeds}",
        )
    console.print(table)


def draw(curves: Curves, seeds: int, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for mode, colour in zip(MODES, ("#c0392b", "#2471a3"), strict=True):
        smooth = np.array([np.convolve(curves[mode, seed], np.ones(WINDOW) / WINDOW, "valid") for seed in range(seeds)])
        at = np.arange(smooth.shape[1]) + WINDOW
        axes.plot(at, smooth.mean(axis=0), color=colour, label=mode, linewidth=2)
        for curve in smooth:
            axes.plot(at, curve, color=colour, alpha=0.3, linewidth=0.8)
    axes.set(
        xlabel="episode",
        ylabel=f"return, mean of the last {WINDOW:,}",
        title=f"FPI-PAC on CartPole-v1: {seeds} seeds (thin) and their mean",
        ylim=(0, None),
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=25_000, help="episodes of every run (at least 2,000)")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--out", type=Path, default=Path("runs/first_run.png"), help="where the picture goes")
    options = parser.parse_args()
    if options.episodes < 2 * WINDOW or options.seeds < 1:
        parser.error(f"--episodes must be at least {2 * WINDOW} and --seeds at least 1")
    console = Console()
    console.print(
        "FPI-PAC on CartPole-v1, 4 tilings of 4 tiles, epsilon 1, ridge 1e-3. The first start compiles a little."
    )
    curves = train_all(options.seeds, options.episodes, console)
    show_table(curves, options.seeds, options.episodes, console)
    draw(curves, options.seeds, options.out)
    console.print(f"The picture is in {options.out}.")
    console.print(
        "Both kinds of run explore alike. They differ in the data behind decisions at well-explored states: "
        "the first that sufficed (frozen), or all of them (not frozen). "
        f"{options.seeds} seeds are no proof; try --seeds 10 --episodes 55000."
    )


if __name__ == "__main__":
    main()
