SELECT seq, token, kind FROM holdfast_notice WHERE worker = :worker
