# Two commands do everything on a fresh machine: `make launch` and `make test`.
# Both set up .venv first and are quick the second time. Needs make, python3 >= 3.11 and its venv module.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Where no NVIDIA driver answers, this release is installed first, so that pip does not choose another one.
CPU_TORCH := torch==2.13.0

.PHONY: launch test lint types imports check bench clean help

help:
	@echo "make launch   set up and open the console with the engine running"
	@echo "make test     set up and run the tests"
	@echo "make check    lint, types and import rules"
	@echo "make bench    timings that README quotes (not part of the tests)"
	@echo "make clean    remove the virtual environment and caches"
	@echo "ARGS='...' passes options on: make launch ARGS='--port 8100', make test ARGS='tests/engine -x'"

launch: $(VENV)/.installed
	@$(BIN)/loraconsole launch $(ARGS)

test: $(VENV)/.installed-dev
	@echo "== tests"
	@OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest $(ARGS)

check: lint types imports

lint: $(VENV)/.installed-dev
	@echo "== lint" && $(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	@echo "== types" && $(BIN)/mypy

imports: $(VENV)/.installed-dev
	@echo "== import rules" && $(BIN)/lint-imports

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "loraconsole needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 ..." >&2; exit 2; }
	@echo "== virtual environment: $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "On Debian and Ubuntu: apt install python3-venv" >&2; exit 2; }

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	@echo "== pip: 25.1 or newer, for dependency groups"
	@$(PIP) install --quiet 'pip>=25.1'
	@if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then \
		echo "== torch: an NVIDIA GPU answers, pip's own choice"; \
	else \
		echo "== torch: no NVIDIA GPU here, $(CPU_TORCH)"; $(PIP) install --quiet '$(CPU_TORCH)'; \
	fi
	@echo "== loraconsole and what it needs"
	@$(PIP) install --quiet -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	@echo "== what the tests need"
	@$(PIP) install --quiet --group dev
	@touch $@

bench: $(VENV)/.installed-dev
	@status=0; \
	echo "== loraconsole --help"; $(BIN)/python -m tests.bench.help_time || status=1; \
	echo "== head to body over a kept-alive connection"; $(BIN)/python -m tests.bench.keep_alive_gap || status=1; \
	echo "== CPU engine beside transformers, 4 minutes"; $(BIN)/python -m engine.microbench.cpu_speed || status=1; \
	echo "== 100 adapters in a pool of 20, 12 minutes"; $(BIN)/python -m tests.bench.hundred_adapters || status=1; \
	exit $$status

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
