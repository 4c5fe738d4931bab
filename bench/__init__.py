"""The benchmark: Holdfast, its rivals and plain hand-written SQL, measured in turn on one machine."""
