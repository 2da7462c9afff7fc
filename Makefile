# `make demo` and `make test` set up what they need in .venv and reuse it. The Python packages are listed in pyproject.toml only:
# when it changes, the next command installs again. Another interpreter: `make demo PYTHON=python3.12`, after `rm -r .venv`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

PYTHON ?= python3
PYTEST_ARGS ?=
SCALING_ARGS ?= # --gigapixel takes an hour more

ENVIRONMENT := .venv
BIN := $(ENVIRONMENT)/bin
BASE := $(ENVIRONMENT)/.base-installed
DEVELOPMENT := $(ENVIRONMENT)/.development-installed
DEVELOPMENT_EXTRAS := napari,distributed,heic,microscopes,raw,remote,docs,test,test-viewer
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv takes a fraction of pip's time; where it cannot be had or does not find all packages, as with an index that only pip knows of, pip does it
INSTALL = { $(PIP_INSTALL) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python $(1); } 2>/dev/null || $(PIP_INSTALL) --no-compile $(1)
# without -noreset the display starts anew whenever its last client has gone, and refuses a test process that comes at that moment
SCREEN := -screen 0 1280x1024x24 -noreset
# the first fusion compiles the loops; what it writes is thrown away, what it says is shown if it fails
COMPILE = $(BIN)/qmcif demo -o $(ENVIRONMENT)/first-run --overwrite >$(ENVIRONMENT)/first-run.log 2>&1 \
    && rm -r $(ENVIRONMENT)/first-run $(ENVIRONMENT)/first-run.log || { cat $(ENVIRONMENT)/first-run.log >&2; exit 1; }
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help
help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(BASE) ## fuse a generated stack of six images into demo-output (no display needed)
	@$(BIN)/qmcif demo -o demo-output --overwrite

.PHONY: test
test: ## check everything: lint, types, all tests
	@$(MAKE) --no-print-directory $(BIN)/python
	@$(MAKE) --no-print-directory --jobs 2 system-libraries $(DEVELOPMENT)
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint types kernels
	@echo "== tests"
	@if command -v xvfb-run >/dev/null; then \
	    screen=(env QT_QPA_PLATFORM=offscreen xvfb-run -a -s '$(SCREEN)'); \
	else \
	    echo "xvfb-run was not found: the viewer tests use this session's display"; screen=(env); \
	fi; \
	$(ONE_THREAD) QMCIF_REQUIRE_VIEWER=1 "$${screen[@]}" $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

.PHONY: test-all
test-all: ## for the night: make test with notebooks and the site, the long attack, a distribution
	@$(MAKE) --no-print-directory test PYTEST_ARGS="-m ''"
	@$(MAKE) --no-print-directory attack build

.PHONY: lint
lint: $(DEVELOPMENT) ## ruff, import layers, spelling, pyproject.toml
	@echo "== lint"
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/typos
	@$(BIN)/validate-pyproject pyproject.toml

.PHONY: types
types: $(DEVELOPMENT) ## mypy, strict
	@echo "== types"
	@$(BIN)/mypy

# Compiled while one core is busy with mypy: the test processes find the code, and do not each compile it anew.
.PHONY: kernels
kernels: $(DEVELOPMENT)
	@$(COMPILE)

.PHONY: bench
bench: $(DEVELOPMENT) ## speed beside other programs, stages, growth with size, quality of both presets; writes docs/performance.md
	@$(ONE_THREAD) $(BIN)/python benchmarks/speed.py
	@$(ONE_THREAD) $(BIN)/python benchmarks/first_run.py --commands
	@$(ONE_THREAD) $(BIN)/python benchmarks/profile.py --shape 2000 3000 --save speed_stages
	@$(ONE_THREAD) $(BIN)/python benchmarks/scaling.py $(SCALING_ARGS)
	@$(ONE_THREAD) $(BIN)/python benchmarks/quality.py default "preset fast" "preset paper" --save quality_presets
	@$(BIN)/python tools/write_figures.py

.PHONY: profile
profile: $(DEVELOPMENT) ## CPU seconds of every numerical stage, for a generated pair
	@$(ONE_THREAD) $(BIN)/python benchmarks/profile.py

.PHONY: docs
docs: $(DEVELOPMENT) ## the documentation site into site, strictly: a broken link or a failing notebook ends it
	@$(ONE_THREAD) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --clean
	@echo "open site/index.html; to try the search, run: $(BIN)/python -m http.server --directory site"

.PHONY: attack
attack: $(DEVELOPMENT) ## mutated inputs, kills and disk errors by the thousand, with a report
	@$(ONE_THREAD) $(BIN)/python tools/attack

.PHONY: build
build: $(DEVELOPMENT) ## wheel and source distribution into dist
	@$(BIN)/python -m hatchling build

.PHONY: clean
clean: ## remove what the commands made, the environment apart
	@rm -rf demo-output dist site .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: screenshots
screenshots: $(DEVELOPMENT) ## make the screenshots of docs/tutorial.md anew, in a real window
	@tools/install-system-libraries xauth xvfb libxcb-cursor0 libxcb-icccm4 libxcb-image0 libxcb-keysyms1 libxcb-render-util0 libxcb-shape0 libxkbcommon-x11-0
	@env -u QT_QPA_PLATFORM xvfb-run -a -s '-screen 0 1600x1000x24 -noreset' $(BIN)/python tools/make_screenshots.py

.PHONY: system-libraries
system-libraries:
	@tools/install-system-libraries

# --- the environment ---

# An interrupted creation leaves no target behind, so the next run starts afresh. The target is a link to the interpreter: when that
# is upgraded, the packages are installed again.
$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null \
	    || { echo "$(PYTHON) was not found; Python 3.11 or newer is needed: install it, or name one with make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "$(PYTHON) is $$("$(PYTHON)" --version); Python 3.11 or newer is needed: name one with make PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || tools/install-system-libraries python3-venv
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null \
	    || { echo "$(PYTHON) cannot create environments; its venv module is needed: apt-get install python3-venv" >&2; exit 1; }
	@echo "== creating the environment in $(ENVIRONMENT)"
	@"$(PYTHON)" -m venv --clear $(ENVIRONMENT)

$(BASE): pyproject.toml $(BIN)/python
	@echo "== installing the engine and the command line"
	@$(call INSTALL,--editable .)
	@echo "== compiling the loops (once, about a minute)"
	@$(COMPILE)
	@touch $@

# Modules are compiled by all cores. Some packages ship files for other Pythons, which do not compile.
$(DEVELOPMENT): pyproject.toml $(BIN)/python
	@echo "== installing the viewer and the development tools (the first time some minutes and 1.5 GB)"
	@$(call INSTALL,--editable '.[$(DEVELOPMENT_EXTRAS)]')
	@$(BIN)/python -m compileall -q -j 0 $(ENVIRONMENT)/lib >/dev/null 2>&1 || true
	@touch $(BASE) $@
