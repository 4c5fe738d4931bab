SELECT max(version) FROM holdfast_migration
