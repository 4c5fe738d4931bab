"""What is remembered: operations as generators of statements, and the databases that run them."""
