# Each target sets up what it needs in .venv, once: the files in .venv/.done say what is there.

VENV := .venv
BIN := $(VENV)/bin
DONE := $(VENV)/.done
RUST_SOURCES := $(wildcard rust/Cargo.* rust/*/Cargo.toml rust/*/src/*.rs rust/*/src/*/*.rs)
PIP_INSTALL := $(BIN)/python -P -m pip install --quiet --disable-pip-version-check --require-hashes
# Spark's workers must run the Python of the environment, not the first one on the path.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(BIN)/python
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-rust test-python test-spark explore bench matrix checklist api fuzz servers lint types format wheel docs protos lock clean java

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(DONE)/extension ## Build the extension and install pilum, editable, into .venv

demo: $(DONE)/extension java ## Run the demo: flights through Spark, changes, searches; ARGS=--keep keeps the tables
	$(BIN)/python -m demo.flights $(ARGS)

test: test-rust test-python ## Run all tests, in parallel; ARGS=... goes to pytest instead

test-rust: ## Run the tests of the Rust kernels only
	PATH="$$(scripts/find-rust.sh):$$PATH" \
	    cargo test --quiet --locked --manifest-path rust/Cargo.toml --package pilum-kernels

test-python: $(DONE)/dev $(DONE)/extension java servers ## Run the Python tests only; ARGS=... goes to pytest
	PYTHONHASHSEED=0 $(BIN)/python -m pytest $(if $(ARGS),$(ARGS),-n auto --dist loadfile --no-loadscope-reorder --max-worker-restart 0)

test-spark: $(DONE)/extension java servers ## Test VERSION=4.1 of PySpark, with pandas 2; PYTHON=python3.12, ARGS=...
	scripts/test-spark.sh $(or $(VERSION),4.3) $(ARGS)

bench: $(DONE)/dev $(DONE)/extension ## Measure against pylance, Parquet and Vortex; ARGS="--help" for more
	$(BIN)/python -m bench $(ARGS)

matrix: $(DONE)/dev $(DONE)/extension ## Run the whole matrix of types and versions, write its page
	PYTHONPATH=tests $(BIN)/python -m matrix $(ARGS)

checklist: $(DONE)/venv ## Write docs/checklist.md: what the format asks for, and the tests of it
	$(BIN)/python scripts/checklist.py

api: $(DONE)/extension ## Write docs/api.md, the reference, from the docstrings
	$(BIN)/python scripts/api-reference.py

explore: $(DONE)/dev $(DONE)/extension java ## Run the tests that draw examples with new ones, MINUTES=60 long
	PYTHONPATH=tests $(BIN)/python -m explore $(if $(SEED),--seed $(SEED)) \
	    --seconds $(or $(SECONDS),$(shell expr 60 \* $(or $(MINUTES),60))) $(ARGS)

fuzz: $(DONE)/dev $(DONE)/extension ## Damage files and read them, SECONDS=300 long
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(or $(SECONDS),300) $(ARGS)

lint: $(DONE)/dev ## Check style: ruff, imports between floors, prose, spelling, clippy, rustfmt
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python scripts/prose.py
	$(BIN)/codespell
	PATH="$$(scripts/find-rust.sh lint):$$PATH" && export PATH && cd rust && \
	    cargo fmt --all --check && \
	    cargo clippy --quiet --locked --workspace --all-targets -- -D warnings

types: $(DONE)/dev ## Check types: mypy, strict
	$(BIN)/mypy

format: $(DONE)/dev ## Format the sources, Python and Rust
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format
	PATH="$$(scripts/find-rust.sh lint):$$PATH" && export PATH && cd rust && cargo fmt --all

wheel: $(DONE)/demo ## Build the abi3 wheel into dist/, and try it without a compiler; fails if it is over 6.5 MB
	PATH="$$(scripts/find-rust.sh):$$PATH" \
	    $(BIN)/maturin build --release --locked --quiet --compression-level 9 --out dist
	scripts/check-wheel.sh dist

docs: $(DONE)/docs ## Build the site of the documentation into build/site
	$(BIN)/zensical build --clean

protos: build/protos/done ## Generate pilum/format/pb from protos/*.proto
	build/protos/bin/python -m grpc_tools.protoc --proto_path=pilum/format/pb=protos \
	    --python_out=. --pyi_out=. protos/*.proto

lock: $(DONE)/venv ## Rewrite requirements/*.lock; ARGS="--upgrade" takes newer versions
	scripts/lock.sh $(BIN)/python $(ARGS)

clean: ## Remove everything that the targets here made
	rm -rf $(VENV) build dist rust/target pilum/_kernels*.so demo-data spark-warehouse
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

servers: ## Install the servers that tests start, once for all checkouts; what cannot be, tests skip
	@scripts/install-servers.sh

java:
	@scripts/need-java.sh

$(DONE)/venv:
	python=$$(scripts/find-python.sh) && "$$python" -m venv --clear $(VENV)
	mkdir -p $(DONE) && touch $@

$(DONE)/demo: requirements/demo.lock | $(DONE)/venv
	$(PIP_INSTALL) --requirement $<
	touch $@

# Contains all of demo.lock, in the same versions.
$(DONE)/dev: requirements/dev.lock | $(DONE)/venv
	$(PIP_INSTALL) --requirement $<
	touch $@ $(DONE)/demo

$(DONE)/docs: requirements/docs.lock | $(DONE)/venv
	$(PIP_INSTALL) --requirement $<
	touch $@

$(DONE)/extension: $(RUST_SOURCES) pyproject.toml | $(DONE)/demo
	PATH="$$(scripts/find-rust.sh):$$PATH" VIRTUAL_ENV="$(CURDIR)/$(VENV)" PIP_QUIET=2 \
	    $(BIN)/maturin develop --release --locked --quiet
	touch $@

build/protos/done: requirements/protos.lock
	python=$$(scripts/find-python.sh) && "$$python" -m venv --clear build/protos
	build/protos/bin/python -m pip install --quiet --require-hashes --requirement $<
	touch $@
