"""Studies: settings × seeds become runs, runs become rows, rows become statistics.

`config` says what a study is, `scheduler` carries it out on one of the `backends` and can be killed at any moment,
`run` is what happens inside one run, `engines` how episodes are played, `storage` what stands on disk, `statistics`
what may be said about it, `speed` how fast it went.
"""

from fpi.experiment.config import Claim, Setting, Study
from fpi.experiment.scheduler import run_study

__all__ = ["Claim", "Setting", "Study", "run_study"]
