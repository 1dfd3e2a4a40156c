# `make` lists the targets. Every target that runs Python makes .venv first.

PYTHON ?= python3
# Extras of pyproject.toml to install: EXTRAS=dev,docs,cuda for a GPU.
EXTRAS ?= dev,docs
# Passed on to pytest: `make test ARGS="-x tests/test_losses.py"`.
ARGS ?=
# Test processes at once.
WORKERS ?= 2

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
PINS := $(wildcard requirements*.txt)
UNFINISHED := $(VENV)/.unfinished
QUICKSTART := build/quickstart
# Other libraries to compare with, in an environment of their own.
PEERS := .venv-peers
PEERS_STAMP := $(PEERS)/.installed
JAX := .venv-jax
JAX_STAMP := $(JAX)/.installed
BENCHMARKS := training_speed convolution_speed evaluation_speed step_time method_time resources

# Read when TensorFlow is imported: fewer log lines, and oneDNN's fast
# convolutions on every CPU. A value from the environment wins.
TF_CPP_MIN_LOG_LEVEL ?= 2
TF_ENABLE_ONEDNN_OPTS ?= 1
export TF_CPP_MIN_LOG_LEVEL TF_ENABLE_ONEDNN_OPTS

.DEFAULT_GOAL := help
.PHONY: help venv quickstart test test-slow tutorial docs lint format bench \
  presets build clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' \
	  $(MAKEFILE_LIST)

venv: $(STAMP) ## make .venv with everything installed (PYTHON=python3.12 to choose)

quickstart: $(STAMP) ## train, attack, lint, export and compare two classifiers: one page
	$(PY) scripts/train.py --flagfile=flags/digits/standard.flags \
	  --workdir=$(QUICKSTART)/standard
	$(PY) scripts/train.py --flagfile=flags/digits/adt_exp.flags \
	  --workdir=$(QUICKSTART)/adt_exp
	$(PY) scripts/evaluate.py --workdir=$(QUICKSTART)/standard
	$(PY) scripts/evaluate.py --workdir=$(QUICKSTART)/adt_exp
	$(PY) scripts/lint.py --workdir=$(QUICKSTART)/standard
	$(PY) scripts/lint.py --workdir=$(QUICKSTART)/adt_exp
	$(PY) scripts/export.py --workdir=$(QUICKSTART)/adt_exp
	$(PY) scripts/report.py \
	  --workdirs=$(QUICKSTART)/standard,$(QUICKSTART)/adt_exp \
	  --output=$(QUICKSTART)/report

test: $(STAMP) ## run the tests, without the slow ones (ARGS="..." goes to pytest)
	$(PY) -m pytest -n $(WORKERS) $(ARGS)

test-slow: $(STAMP) ## run the tests that take minutes
	$(PY) -m pytest -n $(WORKERS) --dist loadgroup -m slow $(ARGS)

tutorial: $(STAMP) ## run docs/tutorial.ipynb and store its outputs
	$(PY) -m tests.support.notebook docs/tutorial.ipynb

docs: $(STAMP) ## build the documentation site: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

lint: $(STAMP) ## check style, formatting and types, change nothing
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(STAMP) ## sort imports, fix what can be fixed, format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

bench: $(STAMP) $(PEERS_STAMP) $(JAX_STAMP) ## time, memory and start-up beside PyTorch: build/bench.json
	rm -rf build/bench
	for script in $(BENCHMARKS); do \
	  $(PY) benchmarks/$$script.py || exit 1; done
	$(PY) benchmarks/collect.py

presets: $(STAMP) ## make the presets of the package again (ARGS=--data_dir=DIR)
	$(PY) benchmarks/build_presets.py $(ARGS)

build: $(STAMP) ## build the source archive and the wheel into dist/
	rm -rf dist
	$(PY) -m build --no-isolation --outdir dist .

clean: ## delete build products, results in build/ and caches; keeps .venv
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache \
	  .hypothesis
	find . -path ./$(VENV) -prune -o -type d -name __pycache__ -print0 \
	  | xargs -0 rm -rf

$(PEERS_STAMP): benchmarks/peers/requirements.txt
	$(PYTHON) -m venv --clear $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  "$$(grep '^torch==' $<)"
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps -r $<
	@touch $@

# Where JAX cannot be had, its rows are left out.
$(JAX_STAMP): benchmarks/peers/requirements-jax.txt
	-$(PYTHON) -m venv --clear $(JAX) && \
	  $(JAX)/bin/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps -r $< && touch $@ || rm -rf $(JAX)

# The marker stands while packages are being installed and becomes the stamp at
# the end, so an interrupted installation starts over with an empty .venv.
$(STAMP): $(PINS) pyproject.toml
	@if [ -e $(UNFINISHED) ] || \
	    ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -c 'import sys; \
	sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null || { \
	    echo "error: Python 3.10 to 3.13 is needed; $(PYTHON) says:" \
	      "$$($(PYTHON) --version 2>&1)." >&2; \
	    echo "       Choose another: make venv PYTHON=python3.12" >&2; \
	    exit 1; }; \
	  $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "error: $(PYTHON) has no venv module." >&2; \
	    echo "       On Debian or Ubuntu: sudo apt install python3-venv" >&2; \
	    exit 1; }; \
	  echo "Creating $(VENV) with $$($(PYTHON) --version) ..."; \
	  $(PYTHON) -m venv --clear $(VENV) || exit 1; \
	fi
	@touch $(UNFINISHED)
	@echo "Installing the pinned packages into $(VENV): 0.8 GB to download" \
	  "the first time, 2.8 GB on disk, a few minutes ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check \
	  $(PINS:%=--constraint %) --editable '.[$(EXTRAS)]'
	@mv $(UNFINISHED) $(STAMP)
	@echo "$(VENV) is ready."
