"""The command `fpi verify`: the paper's claims checked on exact testbeds."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from fpi.cli import console
from fpi.cli.main import Command, app
from fpi.cli.options import Workers, flag, option
from fpi.errors import InputError


@app.command(cls=Command)
def verify(
    quick: Annotated[bool, flag("--quick", "Fewer and shorter runs: about a minute.")] = False,
    seeds: Annotated[
        int | None,
        option("Runs of every instance.", "N", None, "as many as its claims need", min=1),
    ] = None,
    workers: Workers = None,
    claims: Annotated[
        str | None,
        option(
            "Only these: lemmas by number, theorems as T1 to T4, algorithms as A1 and A2, equations as E1 and E6, "
            "constants as C. Example: 1,2,20,T2",
            "LIST",
            None,
            "all",
        ),
    ] = None,
) -> None:
    """Check what the paper claims, on testbeds whose every value is known exactly.

    Watches learning runs and counts, for every lemma and theorem, the checks
    made, those that could have failed, and violations: Lemmas 1 to 6 and
    Theorem 1 are about FPI-PAC; Lemmas 24 to 28, Theorem 4 and rows "for F" are
    about classes of functions; the others are about FPI-Regret. The exit code is
    1 if there are more violations than the failure probability δ allows, or if
    nothing was found out about a claim.

    Example: fpi verify --quick
    """
    from fpi.verify import instances, report

    names = list(report.CLAIMS) if claims is None else _chosen(claims)
    suite = instances.QUICK if quick else instances.FULL
    with console.bar("verifying", len(report.tasks(suite, seeds, names))) as tick:
        verdicts = report.verify(suite, seeds, workers, tick, names)
    console.show_columns("Claims of the paper", report.HEADS, [report.cells(verdict) for verdict in verdicts])
    console.say(f"{report.legend(verdicts)}\n{report.conclusion(verdicts)}")
    if any(report.finding(verdict, quick) for verdict in verdicts):
        raise typer.Exit(1)


def _chosen(claims: str) -> list[str]:
    """Claims by their numbers; 20 is both of its parts, for features and for a class F, T is T1."""
    from fpi.verify.report import CLAIMS

    shorts = {name: _short(name) for name in CLAIMS}
    asked = {"T1" if word in ("t", "T") else word.upper() for word in claims.replace(" ", "").split(",")}
    if not asked <= set(shorts.values()):
        raise InputError(
            f"--claims {claims} is not a list like 1,2,T: there are {', '.join(dict.fromkeys(shorts.values()))}."
        )
    return [name for name, short in shorts.items() if short in asked]


def _short(claim: str) -> str:
    """Lemma 20a for F is 20, Theorem 2 is T2, Equations 6-8 are E6, all constants are C."""
    kind, number = claim.split()[:2]
    return "C" if kind == "Constants" else kind[0].replace("L", "") + re.sub(r"(\d+).*", r"\1", number)
