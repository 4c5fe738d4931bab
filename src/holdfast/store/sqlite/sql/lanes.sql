SELECT lane FROM holdfast_lane
 WHERE (:queues IS NULL OR queue IN (SELECT value FROM json_each(:queues)))
   AND (:tasks IS NULL OR task IN (SELECT value FROM json_each(:tasks)))
