"""Followers of events and counters: any number of them cost the store one query."""
