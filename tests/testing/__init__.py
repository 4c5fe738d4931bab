"""The kit that is shipped for users' own tests."""
