# Everything runs in .venv, which the first target that needs it makes; only make and a Python
# of 3.11 or newer must be there. `make demo SAMPLE=FILE KNOWN=` shows another trace.

SAMPLE ?= sample_traces/seed_case.sqlite
KNOWN ?= --baseline sample_traces/seed_baseline_parquetdir --tokens-per-s 71
PYTEST_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# The first that is new enough and can make virtual environments (Debian packages that apart).
USABLE := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHONS := python3 python3.15 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for python in $(PYTHONS); do \
	$$python -c '$(USABLE)' 2>/dev/null && { command -v $$python; break; }; done)

.PHONY: demo test lint engine-check gpu-check clean

demo: $(READY)
	$(BIN)/traceanalyzer report $(SAMPLE) $(KNOWN)

test: lint
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

# Real engines under nsys: 10 minutes to install them once, 15 to run them; not part of `test`.
engine-check: $(READY)
	$(BIN)/python benchmarks/engine_check/check.py $(CASES)

# The analysis on a GPU, in under 5 minutes; a dry run on the CPU where there is none.
gpu-check: $(READY)
	$(BIN)/python benchmarks/gpu_check/check.py $(GPU_CHECK_ARGS)

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy tests/typing/api.py
	$(BIN)/lint-imports

$(READY): pyproject.toml
	$(if $(PYTHON),,$(error Python 3.11 or newer with its venv module is needed (Debian: apt install python3-venv)))
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .import_linter_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
