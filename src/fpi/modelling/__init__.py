"""A deterministic environment learnt from its transitions, and planning in it: the rooms of `fpi.ModelFPI`."""
