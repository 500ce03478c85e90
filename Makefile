# The only door: every command a developer or CI runs is a target here.
PYTHON ?= python3
VENV := .venv
PEERS := .venv-peers
ENGINES := .venv-engines
BIN := $(VENV)/bin
# Calls are timed once each, without the table of pytest-benchmark: ours is printed after.
TIMED := --benchmark-enable --benchmark-only --benchmark-quiet -q -o addopts="-ra" -o timeout=900
SOURCES := Cargo.toml Cargo.lock pyproject.toml $(shell find src -name '*.rs')
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help run example readme test test-rust test-python test-slow test-browser test-load test-debug test-fuzz
.PHONY: docs test-arm test-miri test-peers test-engines lint format clean plot-sizes example-service audit coverage
.PHONY: wheel sdist release-check
.PHONY: bench bench-calls bench-peers bench-compare bench-ab bench-levels bench-plot bench-readme bench-kernels
.DEFAULT_GOAL := help

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

run: $(VENV)/built ## repeat the paper's experiment on the bundled logits: a table, plots and reports
	$(BIN)/tightset reproduce --output build/reproduce

example: $(VENV)/built ## calibrate a small real classifier and print what several recipes give
	$(BIN)/python examples/digits.py

readme: $(VENV)/built ## put the table that README names a command for into it
	$(BIN)/python tests/readme_table.py

test: lint test-rust test-python ## lint, then run all tests but the slow suites

test-rust: ## test the core, with and without threads; needs no Python
	cargo test --quiet
	cargo test --quiet --no-default-features --test small_calls
	@! cargo tree --edges normal --no-default-features --prefix none | grep -E '^(pyo3|numpy|rayon)' \
	  || { echo "the core must depend on neither Python nor rayon"; exit 1; }

example-service: ## build and test the HTTP service in examples/axum-service
	cd examples/axum-service && cargo fmt --check && cargo test --quiet && cargo build

test-python: $(VENV)/built ## test the package
	$(BIN)/python -m pytest -n 2

test-slow: $(VENV)/built ## run the long statistical tests, and those that take much memory
	$(BIN)/python -m pytest -n 2 -m slow
	cargo test --quiet --test allocation -- --ignored --nocapture

test-browser: $(VENV)/built ## test the report and the live page in Chromium, of the system or of `.venv/bin/playwright install chromium`
	TIGHTSET_BROWSER=required $(BIN)/python -m pytest -m browser

LOAD_SECONDS ?= 600
test-load: $(VENV)/ready ## ask the service for ten minutes (LOAD_SECONDS), then in bad ways; writes benches/load.md
	$(BIN)/maturin develop --release --quiet
	@rm -f $(VENV)/built # the next test builds its own again
	$(BIN)/python benches/load.py --seconds $(LOAD_SECONDS) --write benches/load.md
	$(BIN)/python -m pytest tests/test_service_schema.py -m slow

# The first Rust that has the library of the target: one of its own folder, or the system's.
ARM := aarch64-unknown-linux-gnu
ARM_RUST = $(firstword $(foreach folder,$(patsubst %/,%,$(dir $(shell command -v cargo))) /usr/bin,$(shell \
  ls $$($(folder)/rustc --print target-libdir --target $(ARM) 2>/dev/null)/libstd-*.rlib >/dev/null 2>&1 && echo $(folder))))
ARM_GCC = $(shell command -v aarch64-linux-gnu-gcc)
ARM_QEMU = $(firstword $(shell command -v qemu-aarch64 qemu-aarch64-static))

test-arm: ## test the core for aarch64 under emulation: units, predictors to the bit, pinned bits; CONTRIBUTING says what it needs
	@if [ -z "$(ARM_RUST)" ]; then echo "skipped: no Rust here has the library of $(ARM)"; \
	elif [ -z "$(ARM_GCC)" ]; then echo "skipped: aarch64-linux-gnu-gcc is not installed"; \
	elif [ -z "$(ARM_QEMU)" ]; then echo "skipped: qemu-aarch64 is not installed"; \
	else PATH="$(ARM_RUST):$$PATH" CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$(ARM_GCC)" \
	  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$(ARM_QEMU)" PROPTEST_CASES=16 \
	  cargo test --quiet --target $(ARM) --no-default-features --lib --test core -- --skip selecting_is_not_quadratic; fi

test-debug: ## test the core without optimisation: every overflow and assertion is checked as written
	cargo test --quiet --profile unoptimised

FUZZ_SECONDS ?= 20
test-fuzz: $(VENV)/built ## fuzz documents and kernels (FUZZ_SECONDS each), then the properties with many examples
	@if cargo +nightly fuzz --version >/dev/null 2>&1; then \
	  cargo +nightly fuzz run document -- -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -rss_limit_mb=1024 && \
	  cargo +nightly fuzz run kernels -- -max_total_time=$(FUZZ_SECONDS) -max_len=1024; \
	else echo "skipped: cargo-fuzz needs a nightly toolchain and cargo install cargo-fuzz"; fi
	HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n 2 -o timeout=3600 \
	  tests/test_membership.py tests/test_reference.py tests/test_saturation.py tests/test_quantile.py

test-miri: ## run the tests of the core that have no threads under Miri; needs a nightly toolchain with it
	MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2 cargo +nightly miri test --no-default-features --lib -- $(MIRI)

# bad_texts and long rows take megabytes: too long there. Miri has few instructions of vectors: kernels run at the level
# without any (see src/simd/level.rs).
MIRI := conformal:: kernels::tests simd::tests math::uniform::tests::streams predictor:: rows:: score:: sets:: \
  --skip bad_texts --skip long_r

audit: $(VENV)/ready ## known vulnerabilities and licences of all dependencies; needs cargo install cargo-deny
	cargo deny check
	cargo deny --manifest-path fuzz/Cargo.toml check advisories
	cargo deny --manifest-path examples/axum-service/Cargo.toml check advisories
	@# --all: pip itself too. --strict: a package that the service does not know is a failure, not a line in a table.
	$(BIN)/pip freeze --all --exclude-editable > $(VENV)/frozen.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement $(VENV)/frozen.txt

coverage: $(VENV)/built ## branches of the Python layer and lines of the core; needs cargo install cargo-llvm-cov
	$(BIN)/python -m pytest -q -n 2 -o timeout=600 --cov --cov-report=
	@if [ -e $(PEERS)/built ]; then \
	  $(PEERS)/bin/python -m pytest -q tests/peers -o addopts="-ra" --cov --cov-append --cov-report=; \
	else echo "without the peers, and so without their adapters: make test-peers sets up their environment"; fi
	$(BIN)/coverage report
	cargo llvm-cov --summary-only --ignore-filename-regex 'src/(py|probe)'

docs: $(VENV)/built ## build the documentation site to build/docs, with every example run and every warning an error
	$(BIN)/pip install --quiet --group docs
	$(BIN)/python -m pytest -q -n 2 tests/test_docs.py
	rm -rf build/docs docs/api/generated
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs build/docs
	@echo "build/docs/index.html"

test-peers: $(PEERS)/built ## compare with TorchCP, MAPIE, crepes and puncc in an environment of their own
	$(PEERS)/bin/python -m pytest tests/peers -o addopts="-ra"

test-engines: $(ENGINES)/built ## calibrate with Ray Data and Spark, as docs/scale.md shows; Spark needs Java 17
	$(ENGINES)/bin/python -m pytest tests/engines -o addopts="-ra"

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

plot-sizes: $(VENV)/built ## draw size against coverage on Fashion-MNIST to docs/images/sizes.svg
	$(BIN)/python experiments/sizes_plot.py

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

TURNS ?= 5
LEVELS ?= avx512 avx2
bench-ab: $(VENV)/ready ## time the wheels of OLD=commit and of the working tree by turns, as ratios (TURNS, LEVELS, ONLY)
	@$(BIN)/python benches/ab.py $(OLD) --turns $(TURNS) --levels $(LEVELS) $(if $(ONLY),--only "$(ONLY)")

bench-levels: $(VENV)/ready ## time label scores at each instruction set of this machine beside NumPy; writes benches/levels.md
	$(BIN)/maturin develop --release --quiet
	@rm -f $(VENV)/built
	$(BIN)/python benches/levels.py

bench-plot: $(VENV)/ready ## draw time against n and against K to docs/images/speed.svg
	$(BIN)/maturin develop --release --quiet
	@rm -f $(VENV)/built
	$(BIN)/python benches/plot.py

bench-readme: $(VENV)/ready ## put the tables of the last make bench into the README
	$(BIN)/python benches/readme.py

bench-kernels: ## time kernels of the core by themselves, at each instruction set that this machine has
	for level in sse2 avx2 avx512; do TIGHTSET_SIMD=$$level cargo bench --bench kernels || exit 1; done

WHEEL := --release --locked --out dist
ifeq ($(shell uname),Linux)
# Linked against an old glibc by zig, which is a wheel on PyPI: no container is needed.
WHEEL += --compatibility manylinux_2_28 --zig
endif

$(VENV)/releasing: $(VENV)/ready
	$(BIN)/pip install --quiet --group release
	@touch $@

wheel: $(VENV)/releasing ## build the wheel of this platform to dist, for Python 3.11 and later
	. $(BIN)/activate && maturin build $(WHEEL)

# From the last commit. The crates that tests and benchmarks need are left out: nine tenths of the size.
sdist: $(VENV)/releasing ## build the source distribution to dist, with the locked crates in it
	rm -rf build/sdist
	mkdir -p build/sdist/.cargo
	git archive HEAD | tar -x -C build/sdist
	sed -i.bak -e '/^\[dev-dependencies\]/,/^$$/d' -e '/^\[\[bench\]\]/,/^$$/d' build/sdist/Cargo.toml
	rm build/sdist/Cargo.toml.bak
	cd build/sdist && cargo update --quiet --workspace
	cd build/sdist && cargo vendor --locked vendor > .cargo/config.toml
	cd build/sdist && $(abspath $(BIN))/maturin sdist --out $(CURDIR)/dist

release-check: $(VENV)/releasing ## judge what is in dist: metadata, platform tags, and each file installed and tried
	$(BIN)/twine check --strict dist/*
	$(BIN)/python tests/release_check.py dist

clean: ## remove what the targets above made
	rm -rf $(VENV) $(PEERS) $(ENGINES) target build dist docs/api/generated

# The environment, made anew when the dependencies change.
$(VENV)/ready: pyproject.toml
	@echo "setting up $(VENV)"
	$(PYTHON) -c 'import sys; sys.exit("tightset needs Python 3.11 or later") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"
	@# Some versions of Python put an old one there, with known flaws; nothing here needs it.
	$(BIN)/pip uninstall --quiet --yes setuptools
	$(BIN)/pip install --progress-bar on --group dev
	@touch $@

# The extension, built quickly: no LTO, many codegen units.
$(VENV)/built: $(VENV)/ready $(SOURCES)
	@echo "building the extension"
	$(BIN)/maturin develop
	@$(BIN)/python -m compileall -q python/tightset # as pip does, where Python may not write bytecode by itself
	@touch $@

$(PEERS)/built: pyproject.toml $(SOURCES)
	@echo "setting up $(PEERS); torch is large"
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --upgrade "pip>=25.1"
	$(PEERS)/bin/pip install --progress-bar on --group peers
	. $(PEERS)/bin/activate && maturin develop
	@touch $@

$(ENGINES)/built: pyproject.toml $(SOURCES)
	@echo "setting up $(ENGINES); Ray and Spark are large"
	$(PYTHON) -m venv $(ENGINES)
	$(ENGINES)/bin/pip install --quiet --upgrade "pip>=25.1"
	$(ENGINES)/bin/pip install --progress-bar on --group engines
	. $(ENGINES)/bin/activate && maturin develop
	@touch $@
