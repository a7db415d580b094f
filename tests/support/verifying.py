"""Runs of `fpi verify` for tests: broken agents until they are caught, the algorithms themselves once for all tests."""

from fpi.verify.run import prepare, run, watch


def violated(instance, kind=None, claims=None, until=lambda found: False, seed=1):
    """The claims that an agent violates, at the time when `until` is true of them or at the end."""
    agent, env, monitors = prepare(instance, claims, kind)
    look = watch(monitors, instance.episodes)

    def found():
        return {counts.claim for monitor in monitors for counts in monitor.counts if counts.violations}

    def stop(episode):
        look(episode)
        return until(found())

    agent.learn(env, instance.episodes, seed=seed, callback=stop)
    return found()


_KNOWN = {}


def healthy(instance, seed=1):
    """What the monitors count where nothing is broken, by claim."""
    name = repr((instance, seed))
    if name not in _KNOWN:
        _KNOWN[name] = {counts.claim: counts for counts in run(instance, seed).counts}
    return _KNOWN[name]


def distinct(instances):
    """Each once; they cannot be hashed."""
    return list({repr(instance): instance for instance in instances}.values())
