INSERT INTO holdfast_meter (day, lane, name, amount)
SELECT json_extract(spent.value, '$[0]'), json_extract(spent.value, '$[1]'), json_extract(spent.value, '$[2]'),
       json_extract(spent.value, '$[3]')
  FROM json_each(:spent) AS spent
 WHERE true
    ON CONFLICT (day, lane, name) DO UPDATE SET amount = amount + excluded.amount
