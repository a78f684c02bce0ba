# `make demo` installs what the demo needs, every other target adds the development tools to the same .venv.
# Both read constraints.txt, so neither changes a version of the other. A second run is quick.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LEAN   := $(VENV)/.installed-demo
FULL   := $(VENV)/.installed
PIP    := $(BIN)/python -m pip install --quiet --constraint constraints.txt
# Without an NVIDIA GPU, the CPU build of PyTorch saves 4 GB. If its index is out of reach, pip uses its default index.
CPU_TORCH := --retries 0 --index-url https://download.pytorch.org/whl/cpu torch torchvision

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check bench coverage fuzz mutants docs sizes clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(LEAN): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -c 'import torch' 2>/dev/null || command -v nvidia-smi >/dev/null || $(PIP) $(CPU_TORCH) 2>/dev/null || true
	$(PIP) --editable '.[demo]'
	touch $@

$(FULL): $(LEAN)
	$(PIP) --editable '.[demo,dask,vtab,dev]'
	touch $@

setup: $(FULL) ## Create .venv and install everything

demo: $(LEAN) ## Run all four benchmarks on bundled models and images, and print the path of the report
	$(BIN)/unseen demo

# One thread per test process: two processes with two threads each compete for two cores. Compiled modules are kept even
# where PYTHONDONTWRITEBYTECODE is set, because the tests start hundreds of interpreters.
test: $(FULL) ## Run the whole test suite
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(FULL) ## Run the fast tests
	$(BIN)/python -m pytest -m 'not slow'

check: $(FULL) ## Check format, lint, types, import layers and known flaws of dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.audit

bench: $(FULL) ## Measure speed and memory next to named peers
	for script in bench/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

coverage: $(FULL) ## Measure the coverage of confidence intervals and write docs/evidence/coverage.md
	$(BIN)/python -m tools.record coverage-shares coverage-other coverage-real coverage-tests

fuzz: $(FULL) ## Run every file reader on damaged files (make fuzz INPUTS=20000)
	$(BIN)/python -m tools.fuzz --inputs $(or $(INPUTS),2000)

mutants: $(FULL) ## Run mutation tests on one package (make mutants ROOM=metrics)
	$(BIN)/python -m tools.mutants $(ROOM)

docs: $(FULL) ## Check links, names and examples of the documentation, and build build/site
	$(BIN)/python tools/check_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

sizes: ## Measure time, packages and megabytes of both installations in temporary environments
	$(PYTHON) -m tools.install_sizes

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
