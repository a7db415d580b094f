"""Settings of `fpi.ModelFPI` chosen by hand for some tasks; `for_env(env, preset=True)` takes them."""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"scales": (1.2, 1.0, 0.1, 1.0), "interval": 2},
    "MountainCar-v0": {"interval": 3},
    "InvertedPendulum-v5": {
        "interval": 2,
        "grid": ((-1.0,), (0.0,), (1.0,)),
    },
    "Pendulum-v1": {"grid": ((-2.0,), (0.0,), (2.0,)), "interval": 2},
    "Acrobot-v1": {"scales": (0.4, 0.4, 0.4, 0.4, 2.0, 3.0), "interval": 3},
}
