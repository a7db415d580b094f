"""The whole verification: run the suite, sum up the claims, say it in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fpi.verify.accuracy import LEMMAS, scaled
from fpi.verify.run import Run, run_all
from fpi.verify.suite import CLAIMS, DELTA, Instance
from fpi.verify.tally import Verdict, judge

HEADS = ("claim", "instances", "checks", "could have failed", "violations", "allowed by δ", "tightest margin")


def tasks(suite: Sequence[Instance], seeds: int | None = None) -> list[tuple[Instance, int]]:
    """Every instance with its seeds 0, 1, ...; `seeds` overrides how many."""
    return [(instance, seed) for instance in suite for seed in range(seeds or instance.seeds)]


def verify(
    suite: Sequence[Instance],
    seeds: int | None = None,
    workers: int | None = None,
    progress: Callable[[Run], None] = lambda run: None,
    claims: Sequence[str] = tuple(CLAIMS),
) -> list[Verdict]:
    """Run the suite and judge these claims, the scaled ones last."""
    found = []
    for run in run_all([(*task, claims) for task in tasks(suite, seeds)], workers=workers):
        found += [(run.instance, tally) for tally in run.tallies]
        progress(run)
    verdicts = [judge(claim, CLAIMS[claim][1], found) for claim in claims]
    scales = sorted({instance.scale for instance in suite if instance.scale is not None})
    rows = [scaled(claim, scale) for scale in scales for claim in claims if claim in LEMMAS]
    return verdicts + [judge(row, DELTA, found, scaled=True) for row in rows]


def cells(verdict: Verdict) -> tuple[str, ...]:
    """A row of the table."""
    violations = f"{verdict.violations:,}"
    if verdict.violations:
        violations += f" in {verdict.violating_runs} of {verdict.runs} runs"
    allowed = f"{verdict.allowed_runs}/{verdict.runs} runs" if verdict.allowed_runs else "none"
    margin = f"× {1 / verdict.share:.2f}" if verdict.share > 0 else "never used"
    return (
        verdict.claim,
        str(verdict.instances),
        f"{verdict.checks:,}",
        f"{verdict.counting:,}" + (" vacuous" if verdict.vacuous else ""),
        violations,
        "scaled" if verdict.scaled else allowed,
        "exact" if verdict.claim == "Lemma 2" else margin,
    )


def legend(claims: Sequence[str]) -> str:
    """What stands in the table."""
    lines = [f"{claim}: {CLAIMS[claim][0]}" for claim in claims]
    return "\n".join(
        (
            *lines,
            "A check could have failed if its bound is below what is trivially true.",
            "The margin is the smallest factor between a bound and the actual number.",
            "Scaled rows use a smaller α than the theory: they show how much room there is and are no claims.",
        )
    )


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
