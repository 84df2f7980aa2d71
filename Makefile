# Two commands do everything on a machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test lint format fuzz audit sweep bench docs wheel clean

help:  ## what there is
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: $(VENV)/ready  ## ML-100K: MF, MF-AUR and the default AUR, with a report
	$(BIN)/aleator demo

test: $(VENV)/ready  ## all tests
	$(BIN)/python -m pytest -n 2

lint: $(VENV)/ready  ## format, lint, types, and the licences of the dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python tools/licences.py
	$(BIN)/mypy

format: $(VENV)/ready  ## put the code in form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(VENV)/fuzz: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,fuzz]'
	touch $@

fuzz: $(VENV)/fuzz  ## attack every reader with 200,000 damaged and odd files, half of them guided by coverage
	$(BIN)/python tools/fuzz.py --cases $(or $(CASES),3200) --keep build/fuzz
	$(BIN)/python tools/fuzz.py --cases $(or $(CASES),3200) --keep build/fuzz --guided

bench: $(VENV)/ready  ## the benchmarks of this machine's size, in a few minutes; `aleator bench` lists all
	$(BIN)/aleator bench fit --users 5000 --items 3000
	$(BIN)/aleator bench evaluation --users 5000 --items 3000
	$(BIN)/aleator bench recommend --users 5000 --items 3000 --estimator-dim 256 --models MF MF-AUR
	$(BIN)/aleator bench memory --users 5000 --items 3000 --estimator-dim 256
	$(BIN)/aleator bench growth --users 1024 --items 2048 --pairs 16384 --doublings 1 --dim 64 --sampled-items 512

$(VENV)/docs: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

docs: $(VENV)/docs  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

$(VENV)/checks: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[checks]'
	touch $@

audit: $(VENV)/checks  ## ask about known vulnerabilities of what is installed; needs a network
	$(BIN)/python tools/audit.py

sweep: $(VENV)/checks  ## the tests on the lowest and newest versions of the dependencies; needs a network
	$(BIN)/nox

wheel: $(VENV)/ready  ## build the wheel into dist/
	$(BIN)/python -m build --wheel

clean:  ## forget the environment and what was built
	rm -rf $(VENV) dist build site .pytest_cache .mypy_cache .ruff_cache
