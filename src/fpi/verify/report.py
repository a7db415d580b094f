"""The whole verification: run the suite, sum up the claims, say it in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fpi.verify.accuracy import scaled
from fpi.verify.run import Run, run_all
from fpi.verify.suite import DELTA, Instance
from fpi.verify.tally import Verdict, judge

CLAIMS = {  # what it says, and with which probability it may fail
    "Lemma 1": ("a stage stores at most D data", None),
    "Lemma 2": ("stored pairs stay on-policy", None),
    "Lemma 3": ("noise concentrates", DELTA),
    "Lemma 4": ("error of every prefix", DELTA),
    "Lemma 5": ("error where covered", DELTA),
    "Lemma 6": ("loss where covered", DELTA),
    "Theorem 1": ("at most H·D bad episodes", DELTA),
}
HEADS = ("claim", "instances", "runs", "checks", "could have failed", "violations", "allowed by δ", "tightest margin")


def tasks(suite: Sequence[Instance], seeds: int | None = None) -> list[tuple[Instance, int]]:
    """Every instance with its seeds 0, 1, ...; `seeds` overrides how many."""
    return [(instance, seed) for instance in suite for seed in range(seeds or instance.seeds)]


def verify(
    suite: Sequence[Instance],
    seeds: int | None = None,
    workers: int | None = None,
    progress: Callable[[Run], None] = lambda run: None,
) -> list[Verdict]:
    """Run the suite and judge every claim, the scaled ones last."""
    found = []
    for run in run_all(tasks(suite, seeds), workers=workers):
        found += [(run.instance, tally) for tally in run.tallies]
        progress(run)
    verdicts = [judge(claim, delta, found) for claim, (_, delta) in CLAIMS.items()]
    scales = sorted({instance.scale for instance in suite if instance.scale is not None})
    lemmas = ("Lemma 4", "Lemma 5", "Lemma 6")
    return verdicts + [judge(scaled(lemma, s), DELTA, found, scaled=True) for s in scales for lemma in lemmas]


def cells(verdict: Verdict) -> tuple[str, ...]:
    """A row of the table."""
    says = "scaled" if verdict.scaled else CLAIMS[verdict.claim][0]
    violations = f"{verdict.violations:,}"
    if verdict.violations:
        violations += f" in {_runs(verdict.violating_runs)}"
    allowed = f"in {_runs(verdict.allowed_runs)}"
    margin = f"bound is {1 / verdict.share:.2f} × actual" if verdict.share > 0 else "never used"
    if verdict.claim == "Lemma 2":
        margin = "exact"
    return (
        f"{verdict.claim}: {says}",
        str(verdict.instances),
        str(verdict.runs),
        f"{verdict.checks:,}",
        f"{verdict.counting:,}" + (" (vacuous)" if verdict.vacuous else ""),
        violations,
        "scaled: not a claim" if verdict.scaled else allowed,
        margin,
    )


def _runs(number: int) -> str:
    return {0: "no run", 1: "1 run"}.get(number, f"{number} runs")


def conclusion(verdicts: Sequence[Verdict]) -> str:
    claims = [verdict for verdict in verdicts if not verdict.scaled]
    counting = sum(verdict.counting for verdict in claims)
    broken = [verdict.claim for verdict in claims if verdict.broken]
    vacuous = [verdict.claim for verdict in claims if verdict.vacuous]
    says = f"{counting:,} checks could have failed."
    says += f" VIOLATED beyond what δ allows: {', '.join(broken)}." if broken else " No violation beyond what δ allows."
    if vacuous:
        says += f" Too few counting checks for {', '.join(vacuous)}: those rows say nothing."
    return says
