"""A study on all cores: settings × seeds, rows on disk, and a verdict on a claim. Kill it, run it again: it goes on.

Run it: python examples/study.py [episodes] [folder]
"""

import sys
from pathlib import Path

from fpi.experiment import Claim, RunConfig, Study, run_study
from fpi.report import read, summarise


def main(episodes=3_000, folder="runs/freezing"):
    features = {"type": "TileCoding", "tiles": 4, "tilings": 2}
    common = {"horizon": 500, "epsilon": 1.0, "ridge": 1e-3}
    settings = {
        f"CartPole-v1--{freeze}": RunConfig(
            env="CartPole-v1", episodes=int(episodes), features=features, arguments={**common, "freeze": freeze}
        )
        for freeze in ("exact", "never")
    }
    claim = Claim("exact freezing earns more", "above", {"first": "CartPole-v1--exact", "second": "CartPole-v1--never"})
    study = Study(name="freezing", title="Does freezing help?", settings=settings, seeds=(0, 1), claims=(claim,))
    study = run_study(study, Path(folder), engine="compiled")
    (verdict,) = summarise(study, read(folder))["claims"]
    print(verdict)
    return verdict


if __name__ == "__main__":  # worker processes import this file
    main(*sys.argv[1:])
