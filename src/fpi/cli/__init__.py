"""The command line, `fpi`.

A command's file has its name: `train`, `evaluate`, `check`, `render`, `reproduce`, `verify`, `compare`. `main` has what
they share, `options` their options; `train_options` and `model_environment` make agents and environments of what was
typed or what a file remembers, `training_run` and `study_run` play, `console`, `episode_estimate` and `gif` are what
people see, `study_report` what a study leaves. Heavy modules are imported inside the commands, so that `fpi --help`
answers at once.
"""

from fpi.cli import train, evaluate, check, render, reproduce, compare, verify  # noqa: F401, I001 - as the help lists them
from fpi.cli.main import app, main

__all__ = ["app", "main"]
