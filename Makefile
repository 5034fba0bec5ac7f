# One command runs all but the real Claude Code: `make test`. It makes its own environment, by uv where there is one, else
# by any Python from 3.11 on with venv. PYTHON chooses another Python.
PYTHON ?=
ENVIRONMENT := PYTHON='$(PYTHON)' sh scripts/environment.sh
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: test test-long test-e2e test-backends test-view test-fresh dist screenshots lint types unit coverage bench bench-fleet fuzz prices clean

test: lint types unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

# On two cores, each file on one of them.
unit: $(STAMP)
	$(BIN)/pytest --numprocesses 2 --dist loadfile --max-worker-restart 0

# Random histories of a machine with real processes and kills, 2,000 steps: about twenty minutes.
test-long: $(STAMP)
	CC_TRACE_TEST_STEPS=2000 $(BIN)/pytest --numprocesses 2 --dist load tests/delivery/test_random_processes.py

# The real Claude Code, fetched once by npm; needs npm, node and tmux.
test-e2e: $(STAMP)
	$(BIN)/pytest -o verbosity_assertions=2 tests/e2e

# Real Phoenix, MLflow and Datadog's test agent, each in an environment of its own; about 2 GB, fetched once.
BACKENDS := .backends
test-backends: $(STAMP) $(BACKENDS)/phoenix/.installed $(BACKENDS)/mlflow/.installed $(BACKENDS)/datadog/.installed
	$(BIN)/pytest tests/backends

$(BACKENDS)/phoenix/.installed: PACKAGE := arize-phoenix>=20,<21
$(BACKENDS)/mlflow/.installed: PACKAGE := mlflow>=3.17,<4
$(BACKENDS)/datadog/.installed: PACKAGE := ddapm-test-agent
$(BACKENDS)/%/.installed:
	@$(ENVIRONMENT) $(BACKENDS)/$* '$(PACKAGE)'
	@touch $@

# The viewer in Chromium (CHROMIUM: its program).
test-view: $(STAMP)
	$(BIN)/pytest tests/view/browser

# The pictures of the viewer, from recorded sessions.
screenshots: $(STAMP)
	PYTHONPATH=tests:tests/view $(BIN)/python scripts/screenshots.py

# The wheel and the source distribution, as they are published.
dist: $(STAMP)
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/twine check --strict dist/*

# The documented commands on a minimal Debian, as root: with venv, and with uv (FRESH chooses one). It keeps the system's
# files below ~/.cache/cc-trace.
test-fresh:
	tests/fresh.sh $(FRESH)

coverage: $(STAMP)
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report --skip-covered

bench: $(STAMP)
	$(BIN)/python bench/run.py --write

# A thousand machines, one collector and an outage: about five minutes.
bench-fleet: $(STAMP)
	PYTHONPATH=tests $(BIN)/python bench/fleet.py --write

# Inputs that break it, looked for by coverage, so many seconds for each of the targets in tests/fuzz. What it finds is
# kept in tests/fuzz_cases, and `make test` runs it for ever after. Then texts that take long to mask.
FUZZ_SECONDS ?= 60
fuzz: $(STAMP)
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(FUZZ_SECONDS)
	$(BIN)/python bench/worst.py --seconds $(FUZZ_SECONDS)

# The price table, after raising genai-prices in pyproject.toml.
prices: $(STAMP)
	$(BIN)/python scripts/generate_prices.py

$(STAMP): pyproject.toml cc_trace/__init__.py
	@echo "making $(VENV) and installing what the tests need: about a minute"
	@$(ENVIRONMENT) $(VENV) -e '.[dev]'
	@$(BIN)/python tests/collector.py
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .fuzz dist $(BACKENDS)
