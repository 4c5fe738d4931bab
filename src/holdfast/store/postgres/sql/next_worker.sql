SELECT nextval('holdfast.worker_seq')
