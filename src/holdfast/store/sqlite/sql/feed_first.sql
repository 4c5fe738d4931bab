-- The first job of which something came between two places. (The + keeps it from being looked for job by job.)
SELECT min(coalesce((SELECT min(seq) FROM holdfast_job_spec WHERE seq > CAST(:since AS INTEGER)), :job_max),
           coalesce((SELECT min(+job) FROM holdfast_event
                      WHERE position > CAST(substr(:since, instr(:since, ':') + 1) AS INTEGER)
                        AND position <= CAST(substr(:upto, instr(:upto, ':') + 1) AS INTEGER)), :job_max))
