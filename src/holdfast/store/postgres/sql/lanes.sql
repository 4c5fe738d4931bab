SELECT lane FROM {schema}.lane
 WHERE (:queues::json IS NULL OR queue IN (SELECT json_array_elements_text(:queues::json)))
   AND (:tasks::json IS NULL OR task IN (SELECT json_array_elements_text(:tasks::json)))
