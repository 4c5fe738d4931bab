-- Which layout this connection sees, and which files it has open.
SELECT (SELECT max(version) FROM holdfast_migration), (SELECT json_group_array(file) FROM pragma_database_list)
