"""Record rows anew, after a change that alters them on purpose; the commit names the rows and the reason.

python tests/record.py ROW ...     rows that match, such as 'Regret, tiles*', into recorded.json
python tests/record.py --models    a small agent of every kind into the folder of this version of fpi under models
"""

import sys

from support import recording, scenarios

import fpi


def record_rows(patterns: list[str]) -> None:
    names = scenarios.matching(scenarios.RECORDED, patterns)
    known = recording.read(recording.ROWS) if recording.ROWS.exists() else {}
    for name in names:
        known[name] = recording.portable(scenarios.RECORDED[name]())
    recording.write(recording.ROWS, {name: known[name] for name in scenarios.RECORDED if name in known})
    print(f"recorded {len(names)} of {len(scenarios.RECORDED)} rows")


def record_models() -> None:
    folder = recording.MODELS / ".".join(fpi.__version__.split(".")[:2])
    folder.mkdir(parents=True)  # a version is recorded once
    for kind, (make, features, make_env) in recording.KINDS.items():
        agent = make(features())
        agent.learn(make_env(), 60, seed=scenarios.SEED)
        agent.save(folder / f"{kind}.fpi")
        recording.write(folder / f"{kind}.json", recording.going_on(folder / f"{kind}.fpi"))


if __name__ == "__main__":
    if sys.argv[1:] == ["--models"]:
        record_models()
    elif sys.argv[1:]:
        record_rows(sys.argv[1:])
    else:
        sys.exit(__doc__)
