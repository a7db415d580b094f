"""What must not break fpi, tried on purpose: `python -m benchmarks faults`, see docs/faults.md."""
