"""Tests: they mirror the package, plus `conformance/` (any store must pass it) and `simulation/`."""
