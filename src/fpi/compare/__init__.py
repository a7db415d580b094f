"""Methods side by side on testbeds with exact values: `fpi compare`.

`table1` has every method that can be run, `bandit` those of one stage, `claims` two sentences of the paper that need
other methods to be shown. All are runs of `fpi.baselines.play`.
"""
