# Every target sets up what it needs: a virtual environment in .venv with pinned dependencies.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint bench docs clean

demo: $(READY)
	$(BIN)/tensor-rpca demo -o demo-output --force

test: $(READY)
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/pip install --quiet -r requirements/bench.txt
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.frontier --write

docs: $(READY)
	$(BIN)/pip install --quiet -r requirements/docs.txt
	$(BIN)/sphinx-build -W -q docs docs/_build

$(READY): pyproject.toml requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

clean:
	rm -rf $(VENV) demo-output docs/_build
