SELECT found.*
  FROM (SELECT DISTINCT value AS id FROM json_array_elements_text(:ids::json)) AS wanted
 CROSS JOIN LATERAL (SELECT * FROM {schema}.full_job WHERE full_job.id = wanted.id OFFSET 0) AS found
