SELECT max(version) FROM {schema}.migration
