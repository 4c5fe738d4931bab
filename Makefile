# Everything runs in .venv, which is made on first use: Python 3.11 or newer and make are all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test test-pythons test-psycopg check bench bench-postgresql torture torture-postgresql chaos faults restores limits streams bench-watchers clean

# Tests wait for processes, leases and servers half of the time: one more at work than there are cores.
CREW := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))

OK := import sys; sys.exit(sys.version_info < (3, 11))

$(VENV)/.installed-%: pyproject.toml
	@$(BIN)/python -c "$(OK)" 2>/dev/null || $(PYTHON) -c "$(OK)" || \
	    { echo "Holdfast needs Python 3.11 or newer; $(PYTHON) is older. Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	@$(BIN)/python -c "$(OK)" 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check -e ".[$*]"
	@touch $@

demo: $(VENV)/.installed-demo  ## workers and the page with real sample work, a kill, a recovery; ends by itself
	@$(BIN)/holdfast demo

test: $(VENV)/.installed-test  ## the whole test suite, but what takes minutes: see chaos
	@$(BIN)/python -m pytest -n $(CREW) -q -m "not chaos" $(ARGS)

# The suite's core on SQLite: what runs jobs and what remembers them.
CORE := tests/domain tests/worker tests/conformance $(addprefix tests/store/test_,bulk.py caller.py driver.py errors.py file.py fork.py replaced.py sql.py)
test-pythons:  ## the core of the suite on every other Python that is here, warnings as errors
	@.ci/pythons -q -n $(CREW) -k "not postgres" $(CORE) $(ARGS)

# The newest psycopg is what `make test` runs with. The oldest is put before it on the path: that needs no environment of its own.
OLDEST := $(VENV)/psycopg-oldest
$(OLDEST): pyproject.toml $(VENV)/.installed-test
	@rm -rf $@
	@$(BIN)/pip install --quiet --disable-pip-version-check --target $@ "$$(sed -n 's/^postgres = \["\(.*\)>=\([^,]*\),.*/\1==\2/p' pyproject.toml)"

test-psycopg: $(OLDEST)  ## the tests of PostgreSQL's store with the oldest psycopg that is allowed
	@PYTHONPATH=$(OLDEST) $(BIN)/python -c "import psycopg; print('psycopg', psycopg.__version__)"
	@PYTHONPATH=$(OLDEST) $(BIN)/python -m pytest -n $(CREW) -q -k "postgres or notifier or claims" \
	    tests/conformance $(addprefix tests/store/test_,postgres.py notifier.py claims.py caller_postgres.py) $(ARGS)

check: $(VENV)/.installed-dev  ## lint, types, import layers
	@$(BIN)/ruff check src tests bench chaos
	@$(BIN)/ruff format --check src tests bench chaos
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.installed-bench  ## against rivals and plain SQL, in one run; ARGS="--against DIR": against another checkout too
	@$(BIN)/python -m bench $(ARGS)

bench-postgresql: $(VENV)/.installed-bench  ## the same on PostgreSQL, a private server or the one in HOLDFAST_BENCH_POSTGRES
	@$(BIN)/python -m bench --on postgresql $(ARGS)

torture: $(VENV)/.installed-test  ## a thousand kills of workers and enqueuers, checked against ledgers outside the database
	@$(BIN)/holdfast torture $(ARGS)

torture-postgresql: $(VENV)/.installed-test  ## the same on a private PostgreSQL server
	@$(BIN)/python -m chaos.private_server $(BIN)/holdfast torture --url '{url}' $(ARGS)

streams: $(VENV)/.installed-test  ## clients that cut their connections, a web server killed 20 times: every event once
	@$(BIN)/python -m chaos.streams $(ARGS)

bench-watchers: $(VENV)/.installed-bench  ## 2,500 live streams: how soon, what each costs, what is left
	@$(BIN)/python -m bench.watchers $(ARGS)

faults: $(VENV)/.installed-test  ## one kind of fault of a PostgreSQL server under load: ARGS="--kind restart --times 50"
	@$(BIN)/python -m chaos.faults $(ARGS)

restores: $(VENV)/.installed-test  ## an older copy of the database put in its place under load: ARGS="--on cluster --times 20 --seed 7"
	@$(BIN)/python -m chaos.restores $(ARGS)

limits: $(VENV)/.installed-test  ## limits of queues with workers that are killed: ARGS="--on postgresql --runs 50000 --seed 7"
	@$(BIN)/python -m chaos.limits $(ARGS)

chaos: $(VENV)/.installed-test  ## the tests that take a minute: each kind of fault, a few times
	@$(BIN)/python -m pytest -q -m chaos $(ARGS)

clean:
	rm -rf $(VENV) $(VENV)-3.* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis bench/results
