"""Proofs that need more than Python: programs of the system, and the right to start them."""
