# The only door: every command a developer or CI runs is a target here.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
# Calls are timed once each, without the table of pytest-benchmark: ours is printed after.
TIMED := --benchmark-enable --benchmark-only --benchmark-quiet -q -o addopts="-ra" -o timeout=900
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find src -name '*.rs')
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help run test test-rust test-python test-slow test-peers lint format clean
.PHONY: bench bench-calls bench-peers bench-compare bench-plot bench-readme bench-kernels
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: $(VENV)/built ## calibrate a small real classifier and print what several recipes give
	$(BIN)/python examples/digits.py

test: lint test-rust test-python ## lint, then run all tests but the slow suites

test-rust: ## test the core, with and without threads; needs no Python
	cargo test --quiet
	cargo test --quiet --no-default-features

test-python: $(VENV)/built ## test the package
	$(BIN)/python -m pytest -n 2

test-slow: $(VENV)/built ## run the long statistical tests, and those that take much memory
	$(BIN)/python -m pytest -n 2 -m slow

test-peers: $(PEERS)/built ## compare with TorchCP, MAPIE, crepes and puncc in an environment of their own
	$(PEERS)/bin/python -m pytest tests/peers -o addopts="-ra"

lint: $(VENV)/built ## check format, lints, types and stubs
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --check; else echo "skipped: rustfmt is not installed"; fi
	@if cargo clippy --version >/dev/null 2>&1; then \
	  cargo clippy --quiet --all-targets -- -D warnings && \
	  cargo clippy --quiet --all-targets --features python -- -D warnings; \
	else echo "skipped: clippy is not installed"; fi
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/stubtest tightset._core --mypy-config-file pyproject.toml

format: $(VENV)/ready ## rewrite the sources in the project's format
	cargo fmt
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: bench-calls ## time calls beside NumPy, and beside peers where make bench-peers has run once; writes benches/results.md
	@if [ -e $(PEERS)/built ]; then $(MAKE) --no-print-directory bench-peers; \
	else echo "without the peers: make bench-peers sets up their environment"; $(BIN)/python benches/report.py; fi

bench-calls: $(VENV)/ready
	$(BIN)/maturin develop --release --quiet
	@rm -f $(VENV)/built # the next test builds its own again
	@mkdir -p .benchmarks
	$(BIN)/python -m pytest benches --ignore=benches/peers $(TIMED) --benchmark-json=.benchmarks/calls.raw.json

bench-peers: $(PEERS)/built ## time plain APS beside TorchCP, MAPIE, puncc and crepes
	. $(PEERS)/bin/activate && maturin develop --release --quiet
	@rm -f $(VENV)/built
	@mkdir -p .benchmarks
	$(PEERS)/bin/python -m pytest benches/peers $(TIMED) --benchmark-json=.benchmarks/peers.raw.json
	$(PEERS)/bin/python benches/report.py

bench-compare: $(VENV)/ready ## compare the last two runs of make bench, or OLD=file NEW=file
	@$(BIN)/python benches/compare.py "$(OLD)" "$(NEW)"

bench-plot: $(VENV)/ready ## draw time against n and against K to docs/images/speed.svg
	$(BIN)/maturin develop --release --quiet
	@rm -f $(VENV)/built
	$(BIN)/python benches/plot.py

bench-readme: $(VENV)/ready ## put the tables of the last make bench into the README
	$(BIN)/python benches/readme.py

bench-kernels: ## time kernels of the core by themselves, at each instruction set that this machine has
	for level in scalar avx2 avx512; do TIGHTSET_SIMD=$$level cargo bench --bench kernels || exit 1; done

clean: ## remove what the targets above made
	rm -rf $(VENV) $(PEERS) target

# The environment, made anew when the dependencies change.
$(VENV)/ready: pyproject.toml
	@echo "setting up $(VENV)"
	$(PYTHON) -c 'import sys; sys.exit("tightset needs Python 3.11 or later") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/pip install --progress-bar on --group dev
	@touch $@

# The extension, built quickly: no LTO, many codegen units.
$(VENV)/built: $(VENV)/ready $(SOURCES)
	@echo "building the extension"
	$(BIN)/maturin develop
	@touch $@

$(PEERS)/built: pyproject.toml $(SOURCES)
	@echo "setting up $(PEERS); torch is large"
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --upgrade "pip>=25.1"
	$(PEERS)/bin/pip install --progress-bar on --group peers
	. $(PEERS)/bin/activate && maturin develop
	@touch $@
