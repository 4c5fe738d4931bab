-- In order, so that two transactions that add to the same rows do not deadlock.
INSERT INTO {schema}.meter AS known (day, lane, name, amount)
SELECT spent.value ->> 0, (spent.value ->> 1)::integer, spent.value ->> 2, (spent.value ->> 3)::double precision
  FROM jsonb_array_elements(:spent::jsonb) AS spent (value)
 ORDER BY 1, 2, 3
    ON CONFLICT (day, lane, name) DO UPDATE SET amount = known.amount + excluded.amount
