-- Jobs are about to be deleted: their numbers are never given out again.
UPDATE holdfast_counter SET value = max(value, (SELECT max(value) FROM json_each(:seqs))) WHERE name = 'job'
