-- None: nobody else can change anything while we write.
SELECT '[]' WHERE :leases IS NOT NULL
