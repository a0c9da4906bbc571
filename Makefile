# Nothing but git, make and Python 3.11 is needed: `make demo` measures, `make test` checks.
PYTHON ?= python3.11
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: demo test format clean

demo: .venv/reference
	$(BIN)/dflash-bench sweep examples/quickstart.yaml --resume

test: .venv/dev
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/pytest

format: .venv/dev
	$(BIN)/ruff check --fix && $(BIN)/ruff format

clean:
	rm -rf .venv results

.venv/reference: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv && $(INSTALL) --editable '.[reference]' && touch $@

.venv/dev: .venv/reference
	$(INSTALL) --editable '.[dev]' && touch $@
