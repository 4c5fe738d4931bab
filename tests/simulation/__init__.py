"""The engine against a model, against crashes at every statement, and against bugs planted on purpose."""
