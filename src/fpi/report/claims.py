"""The verdict on every claim of a study.

That one setting earns more than another is decided by the differences between runs of one seed and Student's 95%
interval; and so is whether a mean agrees with a reference. That something grows no faster than a power is held against
the 95% bootstrap interval of its slope on log-log axes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fpi import testbeds
from fpi.errors import InputError
from fpi.experiment.study import Claim, Study
from fpi.report import rates
from fpi.report.rates import Rate
from fpi.report.results import STALE_COUNTED, Results, Setting
from fpi.statistics import Difference, bootstrap_interval, interquartile_mean, student_interval

HOLDS, CONTRADICTED, UNKNOWN = "holds", "contradicted", "not shown"
WIDEST = 3.0  # times the interval of a reference: what is wider would agree with anything
EXACT = 1e-9  # residuals below this are rounding
LOGARITHMS = 0.1  # what they may add to an exponent, where the bound itself is not at hand

Found = Mapping[str, Setting]


def summarise(study: Study, results: Results) -> dict[str, Any]:
    """The content of summary.json."""
    done = sum(1 for _ in results.runs)
    if done < results.asked:
        raise InputError(f"{results.asked - done} of {results.asked} runs are not finished. Run the study first.")
    found = {setting.name: setting for setting in results.settings}
    return {
        "seeds": list(study.seeds),
        "settings": {name: _headline(setting) for name, setting in found.items()},
        "claims": [judge(claim, found) for claim in study.judged],
        "rates": [
            {"text": claim.text, **rate.to_data()}
            for claim in study.judged
            if claim.kind in RATES and len((rate := RATES[claim.kind](found, **claim.arguments)).x) > 1
        ],
    }


def _headline(setting: Setting) -> dict[str, Any]:
    """Return over the last tenth, and the share of stale data at the end."""
    values, stale = setting.headline, setting.stale
    return {
        "last": {
            "mean": bootstrap_interval(values)._asdict(),
            "iqm": bootstrap_interval(values, interquartile_mean)._asdict(),
            "per_seed": values.tolist(),
        },
        "stale": None if stale is None else float(stale.mean()),
    }


def judge(claim: Claim, found: Found) -> dict[str, str]:
    verdict, detail = JUDGES[claim.kind](found, **claim.arguments)
    return {"text": claim.text, "verdict": verdict, "detail": detail}


def _above(found: Found, first: str, second: str) -> tuple[str, str]:
    """The first setting earns more in the last tenth."""
    difference = Difference(found[first].headline - found[second].headline)
    _, low, high = difference.interval
    if low > 0:
        return HOLDS, str(difference)
    if high < 0:
        return CONTRADICTED, str(difference)
    return f"{UNKNOWN}: {'CI includes 0' if len(difference.gaps) > 1 else 'one seed'}", str(difference)


def _equal(found: Found, first: str, second: str) -> tuple[str, str]:
    """Both settings give the same returns, to the bit."""
    differ = found[first].returns != found[second].returns
    return (CONTRADICTED if differ.any() else HOLDS), f"{differ.sum():,} of {differ.size:,} episodes differ"


def _level(found: Found, setting: str, low: float, high: float, episodes: int) -> tuple[str, str]:
    """Student's interval of the mean return in the last tenth meets the reference, which is for so many episodes."""
    headline, played = found[setting].headline, found[setting].returns.shape[1]
    if played != episodes:
        return f"{UNKNOWN}: other length", f"{played:,} episodes, the reference has {episodes:,}"
    level = student_interval(headline)
    if len(headline) == 1:
        return f"{UNKNOWN}: one seed", str(level).split()[0]
    if level.high - level.low > WIDEST * (high - low):
        return f"{UNKNOWN}: CI too wide", f"95% CI {level}"
    overlap = level.low <= high and level.high >= low
    return (HOLDS if overlap else CONTRADICTED), f"95% CI {level}"


def _stale(found: Found, setting: str, low: float, high: float) -> tuple[str, str]:
    """So large a share of the stored returns no longer belongs to the policy, at the end of the run."""
    shares = found[setting].stale
    if shares is None:
        return f"{UNKNOWN}: not measured", f"stale data are counted {STALE_COUNTED}"
    inside = ((shares >= low) & (shares <= high)).all()
    least, most = f"{shares.min():.1%}", f"{shares.max():.1%}"
    share = least if least == most else f"{least} to {most}"
    return (HOLDS if inside else CONTRADICTED), f"{share} stale at the end, {len(shares)} seeds"


def _realizable(found: Found, testbed: str, **arguments: Any) -> tuple[str, str]:
    """Q^pi is linear in the features for an optimal and for random policies."""
    residual = testbeds.make(testbed, **arguments).verify().residual
    return (HOLDS if residual <= EXACT else CONTRADICTED), f"largest residual of Q^π {residual:.1e}"


def _incomplete(found: Found, testbed: str, **arguments: Any) -> tuple[str, str]:
    """Some linear function has a Bellman backup that is not linear."""
    residual = testbeds.make(testbed, **arguments).verify().bellman_residual
    return (HOLDS if residual > EXACT else CONTRADICTED), f"largest residual of a backup {residual:.1e}"


def _rate(found: Found, settings: Sequence[str], **arguments: Any) -> tuple[str, str]:
    """One number of every run grows no faster than the paper says with what differs between the settings."""
    if rates.unfinished(found, settings, **arguments):
        return f"{UNKNOWN}: too short", "what is counted still goes on at the end of a run"
    return _slope(rates.between_settings(found, settings, **arguments))


def _regret(found: Found, **arguments: Any) -> tuple[str, str]:
    """The regret of the worst of these settings grows no faster than the paper says."""
    return _slope(rates.over_episodes(found, **arguments))


def _slope(rate: Rate) -> tuple[str, str]:
    if rate.exceeds:
        return CONTRADICTED, f"more than the bound; {rate}"
    if len(rate.x) < 2:
        return f"{UNKNOWN}: too short", f"{len(rate.x)} points make no slope"
    if len(rate.values) == 1:
        return f"{UNKNOWN}: one seed", str(rate)
    most = rate.allowed_slope if rate.allowed else rate.exponent + LOGARITHMS
    return (HOLDS if rate.slope.low <= most else CONTRADICTED), str(rate)


RATES: dict[str, Callable[..., Rate]] = {"rate": rates.between_settings, "regret": rates.over_episodes}
JUDGES: dict[str, Callable[..., tuple[str, str]]] = {
    "above": _above,
    "equal": _equal,
    "level": _level,
    "stale": _stale,
    "realizable": _realizable,
    "incomplete": _incomplete,
    "rate": _rate,
    "regret": _regret,
}
