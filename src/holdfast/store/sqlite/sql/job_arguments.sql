SELECT arguments FROM holdfast_body WHERE seq = :seq
