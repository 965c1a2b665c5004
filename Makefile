# On a fresh clone each of these is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check install --constraint constraints.txt

.PHONY: plan test check docs bench bench-study studies format clean

plan: $(VENV)/installed  ## plan the paper's case study
	@$(BIN)/prfaas-opt plan

test: $(VENV)/developing  ## run all tests
	$(BIN)/pytest --numprocesses auto --dist worksteal

check: $(VENV)/developing  ## lint, types, layers, and whether the docs show what the program prints
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --scripts-are-modules scripts/bench scripts/bench_study scripts/docs
	$(BIN)/mypy --strict scripts/studies
	$(BIN)/lint-imports
	$(BIN)/python scripts/docs --check

docs: $(VENV)/developing  ## bring the outputs and generated tables in README and docs up to date
	$(BIN)/python scripts/docs

bench: $(VENV)/developing  ## measure speed, as ratios
	$(BIN)/python scripts/bench

bench-study: $(VENV)/developing  ## measure a study of a million scenarios, and kill one 50 times: about ten minutes
	$(BIN)/python scripts/bench_study

studies: $(VENV)/developing  ## run the studies that ship: results, reports, tables and pictures
	$(BIN)/python scripts/studies --output build/studies
	$(BIN)/python scripts/studies --pictures

format: $(VENV)/developing
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable .
	@touch $@

$(VENV)/developing: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
