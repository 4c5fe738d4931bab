SELECT found.*
  FROM (SELECT DISTINCT holdfast.number_of(value) AS seq FROM json_array_elements_text(:ids::json)) AS wanted
 CROSS JOIN LATERAL (SELECT * FROM holdfast.browse WHERE browse.seq = wanted.seq OFFSET 0) AS found
