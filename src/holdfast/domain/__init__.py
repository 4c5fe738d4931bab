"""What may happen: pure rules, with no I/O, no clock and no randomness."""
