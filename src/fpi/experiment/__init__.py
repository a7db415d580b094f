"""Studies: run all settings with all seeds, one row per episode.

`study` says what a study is, `scheduler` carries it out on one of the `backends` and can be killed at any moment,
`run` is what happens inside one run, `storage` what stands on disk. What came out is read and judged by `fpi.report`.
"""

from fpi.experiment.scheduler import run_study
from fpi.experiment.study import Claim, Study
from fpi.run_config import RunConfig

__all__ = ["Claim", "RunConfig", "Study", "run_study"]
