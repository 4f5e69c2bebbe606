# All that is done regularly, one word each. `make` alone lists it.
#
# Needs make, Python 3.11 or newer with venv, and a C compiler in case a dependency has no wheel for this machine.
# Everything else goes into .venv. Another Python: `make setup PYTHON=python3.13`.

PYTHON ?= python3
ARGS ?=
ONCE ?=

# On all cores, and one process more: tests of real processes spend half of their time waiting. Tests of one file stay
# together, for what they share, until a core has nothing left to do.
WORKERS ?= $(shell echo $$(($$(nproc) + 1)))
PYTEST = .venv/bin/pytest -n $(WORKERS) --dist worksteal

MAKEFLAGS += --no-print-directory
# Tests and benchmarks start hundreds of processes. Let them keep their bytecode, or each compiles all of Mainstay again.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help setup components quick test test-deep form lint package sim-long chaos bench demo tour proto clean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.installed ## Make .venv, with Mainstay and all that its developers need

# The stamp is written last, so that an install that was cut short is made again.
.venv/.installed: pyproject.toml constraints.txt
	@PYTHON="$(PYTHON)" tools/setup
	@touch $@

components: ## Install the real components that tests run against (as root, with apt-get)
	@tools/components

quick: setup ## Run the tests of pure functions and of parts in memory (under a minute)
	$(PYTEST) -q -m "not slow and not deep" $(ARGS)

test: setup components ## Run the tests that every change should pass (minutes; ARGS="-k watch tests/store" for some)
	$(PYTEST) -m "not deep" $(ARGS)

test-deep: setup components ## Run the tests that `make test` leaves out: many seeds, long chaos, sweeps
	$(PYTEST) -m deep $(ARGS)

form: setup ## Check form and types
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

lint: form ## Check form, types, and the rules of the source
	.venv/bin/pytest -q -n 0 tests/test_tidy.py

package: setup ## Build the distributions, install them elsewhere, and run their tests there
	@tools/check-package

sim-long: setup ## Run the scenarios with thousands of seeds (ARGS="--all --seeds 20000 --log search.jsonl")
	.venv/bin/python -m tests.search $(ARGS)

chaos: setup components ## Kill what there is of a real cluster, at random (ARGS="--minutes 10 --seed 7")
	.venv/bin/python -m tests.chaos $(ARGS)

bench: setup components ## Run all benchmarks (ARGS=--quick, or ARGS=--write for bench/RESULTS.md)
	.venv/bin/python -m bench $(ARGS)

demo: setup ## Run a three-zone cluster with real processes, and give it trouble (ONCE=1 ends and cleans up by itself)
	@ONCE="$(ONCE)" .venv/bin/python -m examples.demo

tour: setup ## Show what is underneath: the store, virtual time, scenarios
	@.venv/bin/python -m examples.tour

proto: setup ## Make mainstay/store/etcd/rpc_pb2.py from rpc.proto
	.venv/bin/python -m grpc_tools.protoc --proto_path=. --python_out=. --pyi_out=. mainstay/store/etcd/rpc.proto
	sed -i '1i # mypy: disable-error-code="type-arg"' mainstay/store/etcd/rpc_pb2.pyi

clean: ## Remove all that was made here: .venv, caches, build output
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
