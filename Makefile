# Every target makes its own environment first: see tools/bootstrap.sh (Python) and tools/java-home.sh (Java).
.PHONY: help demo test check format lint types layers unit docs lock bootstrap clean bench-btree bench-query bench-kinds bench-maintain bench-ranked
.DEFAULT_GOAL := help

BIN := .venv/bin
SPARK := tools/run.sh
# A file stays in one process, whose tests share tables and a Spark session.
TEST_PROCESSES ?= 2
PYTHON_SOURCES := src tests $(wildcard benchmarks examples)

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: bootstrap  ## write a table, build indexes on an embedded Spark, query with and without them
	$(SPARK) $(BIN)/lancewright demo

test: bootstrap  ## run every test
	$(SPARK) $(BIN)/pytest tests --numprocesses $(TEST_PROCESSES) --dist loadfile

# Cheapest first, so that a small mistake shows early.
check: lint types layers unit docs  ## format, lint, types, import layers, unit tests, docs

format: bootstrap  ## rewrite the sources in the project's format
	$(BIN)/ruff format $(PYTHON_SOURCES)
	$(BIN)/ruff check --fix $(PYTHON_SOURCES)

lint: bootstrap  ## formatting and lint, without changing anything
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/ruff check $(PYTHON_SOURCES)

types: bootstrap  ## mypy, strict
	$(BIN)/mypy

layers: bootstrap  ## the import order of the folders
	$(BIN)/lint-imports

unit: bootstrap  ## tests without a JVM: unit, layers and docs
	$(SPARK) $(BIN)/pytest tests/unit tests/layers tests/docs

docs: bootstrap  ## build the documentation in strict mode into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench-btree: bootstrap  ## build a B-tree in several ways (ARGUMENTS="--rows 100000000", or "--lookup")
	$(SPARK) $(BIN)/python -m benchmarks.btree $(ARGUMENTS)

bench-query: bootstrap  ## ask a table in several ways (ARGUMENTS="--rows 100000000", or "--planning 10000")
	$(SPARK) $(BIN)/python -m benchmarks.query $(ARGUMENTS)

bench-kinds: bootstrap  ## ask indexes of our own kinds beside full scans (ARGUMENTS="--rows 5000000 --sections spatial")
	$(SPARK) $(BIN)/python -m benchmarks.kinds $(ARGUMENTS)

bench-maintain: bootstrap  ## refresh, merge and catch up beside pylance (ARGUMENTS="--rows 50000000 --sections merge")
	$(SPARK) $(BIN)/python -m benchmarks.maintain $(ARGUMENTS)

bench-ranked: bootstrap  ## nearest places, graphs and lookups of many keys (ARGUMENTS="--rows 5000000")
	$(SPARK) $(BIN)/python -m benchmarks.ranked $(ARGUMENTS)

lock:  ## resolve the dependencies again (needs the network and uv)
	tools/lock.sh

bootstrap:
	@tools/bootstrap.sh

clean:  ## remove everything the targets above made
	rm -rf .venv site build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
