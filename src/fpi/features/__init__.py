"""Feature maps: from an observation to one feature vector per action.

The theory asks for ‖φ(s, a)‖ ≤ 1. The built-in maps keep to that by construction; `Function`, which
wraps any plain function, checks it at every call and can divide by a known bound.

All built-in maps are action-separate: φ(s, a) is ψ(s) in the block of action a and zero elsewhere, so
the regression splits into one small problem per action. `OneHot` and `TileCoding` are sparse (`active`)
and have a `key`; `Fourier` and `RBF` are dense (`state`). Observations outside the range of a map are
moved to its edge.
"""

from fpi.features.base import NORM_TOLERANCE, FeatureMap, FloatArray, IndexArray, OptionalMethods, optional_methods
from fpi.features.function import Function, as_feature_map, with_stage
from fpi.features.maps import RBF, Fourier, OneHot, TileCoding, for_env, from_config

__all__ = [
    "NORM_TOLERANCE",
    "RBF",
    "FeatureMap",
    "FloatArray",
    "Fourier",
    "Function",
    "IndexArray",
    "OneHot",
    "OptionalMethods",
    "TileCoding",
    "as_feature_map",
    "for_env",
    "from_config",
    "optional_methods",
    "with_stage",
]
