# Nothing but git, make and Python 3.11 is needed: `make demo` measures, `make test` checks.
PYTHON ?= python3.11
BIN := .venv/bin
BACKENDS ?= transformers mlx vllm llama.cpp
INSTALL := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: demo test test-backends oracle format clean

demo: .venv/reference
	$(BIN)/dflash-bench sweep examples/quickstart.yaml --resume

test: .venv/dev
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy && $(BIN)/lint-imports && $(BIN)/pytest

# Real backends, from nothing: an environment each (about 10 GB in all), servers started, one table printed last.
test-backends: .venv/dev
	for name in $(BACKENDS); do $(BIN)/dflash-bench env create $$name || exit 1; done
	mkdir -p results
	OMP_NUM_THREADS=1 DFLASH_BENCH_TABLE=results/backends.md $(BIN)/pytest -m backend tests/backends

oracle: .venv-oracle/ready
	OMP_NUM_THREADS=1 .venv-oracle/bin/python -m pytest -q tests/oracle

format: .venv/dev
	$(BIN)/ruff check --fix && $(BIN)/ruff format

clean:
	rm -rf .venv .venv-oracle results

.venv/reference: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv && $(INSTALL) --editable '.[reference]' && touch $@

.venv/dev: .venv/reference
	$(INSTALL) --editable '.[dev]' && touch $@

# The engines that ours is held against, in an environment of their own.
.venv-oracle/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-oracle
	.venv-oracle/bin/pip install --quiet --constraint constraints.txt --editable '.[reference]' pytest hypothesis
	.venv-oracle/bin/pip install --quiet --no-deps dflash==0.1.0 && touch $@
