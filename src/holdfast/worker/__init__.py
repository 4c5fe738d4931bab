"""Who does it: claims jobs, runs them, keeps their leases alive, and writes down how they ended."""
