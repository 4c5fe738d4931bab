-- Which of these jobs hold their key.
SELECT json_group_array(held.seq)
  FROM json_each(:keys) AS given
 CROSS JOIN holdfast_key AS held ON held.key = json_extract(given.value, '$[0]') AND held.seq = json_extract(given.value, '$[1]')
