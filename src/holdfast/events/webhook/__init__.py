"""Callbacks by HTTP, signed as Standard Webhooks 1.0.0 asks."""
