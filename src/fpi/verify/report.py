"""The whole verification: run the suite, sum up the claims, say it in a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby

from fpi.verify.counts import Verdict, judge
from fpi.verify.instances import DELTA, Instance
from fpi.verify.run import CHECKED, Claim, Run, run_all


def _place(claim: Claim) -> tuple[int, int, str]:
    """What the paper defines, then lemmas, then theorems, by number."""
    kind = claim.name.split()[0]
    return {"Lemma": 1, "Theorem": 2}.get(kind, 0), int(re.sub(r"\D", "", claim.name.split("-")[0]) or 0), claim.name


CLAIMS = {
    claim.name: claim
    for _, claims in groupby(CHECKED, lambda claim: claim.algorithm)
    for claim in sorted(claims, key=_place)
}
HEADS = ("claim", "instances", "could have failed", "units", "violations", "allowed", "tightest margin")


def tasks(
    suite: Sequence[Instance], seeds: int | None = None, claims: Sequence[str] = tuple(CLAIMS)
) -> list[tuple[Instance, int, Sequence[str]]]:
    """Every instance that has one of the claims with its seeds 0, 1, ...; `seeds` overrides how many."""
    algorithms = {CLAIMS[claim].algorithm for claim in claims}
    chosen = [instance for instance in suite if instance.algorithm in algorithms]
    return [(instance, seed, claims) for instance in chosen for seed in range(seeds or instance.seeds)]


def verify(
    suite: Sequence[Instance],
    seeds: int | None = None,
    workers: int | None = None,
    progress: Callable[[Run], None] = lambda run: None,
    claims: Sequence[str] = tuple(CLAIMS),
) -> list[Verdict]:
    """Run the instances and judge those of the claims that they have, the scaled ones last."""
    found = []
    for run in run_all(tasks(suite, seeds, claims), workers=workers):
        found += [(run.instance, counts) for counts in run.counts]
        progress(run)
    rows = dict.fromkeys(counts.claim for _, counts in found)
    total = len({instance for instance, _ in found})
    verdicts = [judge(claim, CLAIMS[claim].delta, found, instances=total) for claim in claims if claim in rows]
    extra = [row for row in rows if row not in CLAIMS and row.split(",")[0] in claims]
    return verdicts + [judge(row, DELTA, found, instances=total, scaled=True) for row in extra]


def finding(verdict: Verdict, quick: bool) -> bool:
    """A claim that is violated, or about which nothing was found out although something should have been."""
    return verdict.broken or (verdict.vacuous and not (quick and CLAIMS[verdict.claim].too_long))


def cells(verdict: Verdict) -> tuple[str, ...]:
    """A row of the table."""
    violations = f"{verdict.violations:,}"
    if verdict.violations:
        violations += f" in {verdict.violating_runs} of {verdict.runs} runs"
    allowed = f"{verdict.allowed_runs} runs" if verdict.allowed_runs else "none"
    margin = f"× {1 / verdict.share:.2f}" if verdict.share > 0 else "never used"
    return (
        verdict.claim,
        str(verdict.instances),
        f"{verdict.counting:,}",
        f"{verdict.units:,}" + (" vacuous" if verdict.vacuous else ""),
        violations,
        "scaled" if verdict.scaled else allowed,
        "exact" if CLAIMS[verdict.claim.split(",")[0]].exact else margin,
    )


def legend(verdicts: Sequence[Verdict]) -> str:
    """What stands in the table."""
    lines = [f"{each.claim}: {CLAIMS[each.claim].says}" for each in verdicts if not each.scaled]
    return "\n".join(
        (
            *lines,
            "A check could have failed if its bound is below what is trivially true. Units are what such checks are",
            "about, each once: a run, a dataset, a state. A row with fewer than 10 is vacuous.",
            "Allowed are failing runs per instance, by a binomial test: true claims fail it anywhere in 1% of tables.",
            "The margin is the smallest factor between a bound and the actual number.",
            "Scaled rows use a smaller α or β than the theory: they show how much room there is and are no claims.",
        )
    )


def conclusion(verdicts: Sequence[Verdict]) -> str:
    claims = [verdict for verdict in verdicts if not verdict.scaled]
    counting = sum(verdict.counting for verdict in claims)
    broken = [f"{verdict.claim} ({', '.join(verdict.broken_on)})" for verdict in claims if verdict.broken]
    says = f"{counting:,} checks could have failed."
    says += f" VIOLATED beyond what δ allows: {', '.join(broken)}." if broken else " No violation beyond what δ allows."
    for verdict in claims:
        if verdict.vacuous:
            says += f"\n{verdict.claim} says nothing: {CLAIMS[verdict.claim].too_long or 'too few units'}."
    return says
