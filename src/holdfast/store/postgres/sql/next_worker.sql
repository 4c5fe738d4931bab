SELECT nextval('{schema}.worker_seq')
