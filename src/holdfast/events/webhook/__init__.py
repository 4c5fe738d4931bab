"""Who is told, elsewhere: callbacks by HTTP, signed as Standard Webhooks 1.0.0 asks."""
