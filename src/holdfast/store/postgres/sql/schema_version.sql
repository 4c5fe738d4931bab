SELECT max(version) FROM holdfast.migration
