"""Studies: settings × seeds become runs, runs become rows, rows become statistics.

`plan` says what a study is, `conducting` carries it out on one of the `backends` and can be killed at any moment,
`runs` is what happens inside one run, `engines` how episodes are played, `folder` what stands on disk, `statistics`
what may be said about it, `speed` how fast it went.
"""

from fpi.experiment.conducting import conduct
from fpi.experiment.plan import Claim, Setting, Study

__all__ = ["Claim", "Setting", "Study", "conduct"]
