# Every target sets up what it needs: a virtual environment in $(VENV), and in it this
# checkout with the extras that the target uses. A stamp file per set of extras remembers
# what is installed; it is out of date when pyproject.toml is newer.
#
#   make demo                             solve bundled real data by every method
#   make test                             run the tests, a process for each processor
#   make test PYTEST_ARGS="-m 'slow or not slow'"      ... with the slow sweeps
#   make test PYTEST_ARGS="-n 0 --pdb"    ... in one process, with a debugger at failures
#   make coverage                         the lines that tests run, with and without compilation
#   make papers-quick                     the smallest case of each study of the papers
#   make compare BASE=main                compare the benchmarks of this commit and another
#   make demo PYTHON=python3.13 VENV=/tmp/env          ... with another Python, elsewhere

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
ASV_ARGS ?= --quick --show-stderr --launch-method forkserver
DOCS_OUT ?= docs/_build/html
BASE ?= HEAD~1

BIN := $(abspath $(VENV))/bin
# No other installation may shine through.
unexport PYTHONPATH PYTHONHOME

.PHONY: help demo test coverage papers-quick compare lint format docs bench clean
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed-plot,reference
	$(BIN)/qpsvm demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest $(PYTEST_ARGS)

papers-quick: $(VENV)/.installed-test
	$(BIN)/python -m docs.papers.make --quick

coverage: $(VENV)/.installed-test,dev
	rm -f .coverage .coverage.*
	$(BIN)/python -m coverage run -m pytest $(PYTEST_ARGS)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m pytest -p tests.mutation.selection \
	    tests/numerics tests/gram tests/solvers tests/estimators/grid
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m coverage run -m tests.fuzz \
	    --problems 500 --seed 1 --largest 12 --processes 2
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs $(DOCS_OUT)
	@echo "built $(DOCS_OUT)/index.html"

bench: $(VENV)/.installed-bench
	cd asv_benchmarks && $(BIN)/asv machine --yes
	cd asv_benchmarks && $(BIN)/asv run --python=same $(ASV_ARGS) \
	    --set-commit-hash "$$(git rev-parse HEAD)"

compare: $(VENV)/.installed-bench
	cd asv_benchmarks && $(BIN)/asv machine --yes
	$(BIN)/python -m asv_benchmarks.compare "$$(git rev-parse $(BASE))" "$$(git rev-parse HEAD)"

clean:
	rm -rf .venv build dist docs/_build docs/auto_gallery asv_benchmarks/.asv .pytest_cache .mypy_cache .ruff_cache
	rm -f qpsvm-demo.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	@echo "installing qpsvm[$*] into $(VENV)"
	@$(BIN)/python -m pip install --quiet -e ".[$*]"
	@touch $@
