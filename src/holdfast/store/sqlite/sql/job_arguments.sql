SELECT arguments FROM holdfast_job WHERE seq = :seq
