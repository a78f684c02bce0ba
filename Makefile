# Every target does its own set-up in .venv; a second run is quick.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test quick check bench fuzz mutants docs clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 10

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo,dask,vtab,dev]'
	touch $@

setup: $(STAMP) ## Create .venv and install everything

demo: $(STAMP) ## Run the embedded study end to end and say where its report is
	$(BIN)/unseen demo

# Two processes of two threads each would wait for one another on two cores.
test: $(STAMP) ## Run the whole test suite
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n 2 --dist worksteal

quick: $(STAMP) ## Run the tests that take no time
	$(BIN)/python -m pytest -m 'not slow'

check: $(STAMP) ## Format, lint, types, import layers, flaws of dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.audit

bench: $(STAMP) ## Speed and memory beside peers, in one run
	for script in bench/[a-z]*.py; do $(BIN)/python $$script || exit 1; done

fuzz: $(STAMP) ## Feed every reader with damaged files (make fuzz INPUTS=20000)
	$(BIN)/python -m tools.fuzz --inputs $(or $(INPUTS),2000)

mutants: $(STAMP) ## Do the tests bite? Faults in a room's code (make mutants ROOM=metrics)
	$(BIN)/python -m tools.mutants $(ROOM)

docs: $(STAMP) ## Check the documentation (links, names, examples that parse), and build its site into build/site
	$(BIN)/python tools/check_docs.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
