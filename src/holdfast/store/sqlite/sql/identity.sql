-- Which layout this connection sees, and in which of its files: SQLite takes a table from the first database that has it, the main one
-- before those that were attached.
SELECT (SELECT max(version) FROM holdfast_migration),
       (SELECT databases.file
          FROM pragma_database_list AS databases
         WHERE EXISTS (SELECT 1 FROM pragma_table_info('holdfast_migration', databases.name))
         ORDER BY databases.seq LIMIT 1)
