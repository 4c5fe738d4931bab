"""Who is told: following what happens, without asking the store once per follower."""
