# make demo    set up and let the simulated robot find an object
# make check   set up and run lint, types and the quick unit tests
# make test    the same, then the lengthy unit tests and those of models, wire and nodes
# make docs    build the documentation into site/; a warning is an error
# make links   ask for every page of the web that the documents link to; needs a network
# make figures write the documents' figures and pictures from benchmarks/results/
# make setup   set up only; a second run takes under a second
# make weights bring published language models (1.6 GB) for `outrider bench weights` and `pytest -m weights`
# make test ROS_DISTRO=kilted PYTHON=python3.13    the same on another ROS 2 and Python, in .venv-kilted
INSTRUCTION ?= find the silver bottle
DEMO_OPTIONS ?=
# One environment for each distribution that is asked for here; a sourced one has the usual environment.
VENV ?= .venv$(if $(findstring command line,$(origin ROS_DISTRO)),-$(ROS_DISTRO))
BIN := $(VENV)/bin
# An installed ROS 2 belongs to the system's Python; without one any of these versions will do.
PYTHON ?= $(shell sh scripts/find_python.sh $(VENV))

# With an installed ROS 2 the tests need what its set-up sets; without one this environment has it all.
SOURCE_ROS := $(if $(wildcard /opt/ros/*/setup.sh),. $(VENV)/setup.sh &&)
export OUTRIDER_VENV := $(VENV)

# Idle threads must sleep, not spin: on two cores spinning costs more than the arithmetic.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: demo check test docs links figures setup weights check-python
.DEFAULT_GOAL := demo

check-python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.10 to 3.14 found; run: sudo apt-get install -y python3 python3-venv, or: make PYTHON=/path/to/python3.12" >&2; exit 1; }

setup: check-python
	@$(PYTHON) scripts/setup_env.py

demo: setup
	@$(BIN)/outrider demo "$(INSTRUCTION)" $(DEMO_OPTIONS)

# Into the user's cache, or $OUTRIDER_WEIGHTS; each file is pinned by its hash.
weights: setup
	@$(BIN)/python scripts/get_weights.py

# mkdocs-material announces other products on every run; NO_MKDOCS_2_WARNING leaves that out.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

links: setup
	@$(BIN)/python scripts/external_links.py

figures: setup
	@$(BIN)/python scripts/figures

check: setup
	@sh scripts/get_test_tools.sh $(BIN)
	$(BIN)/ruff check src tests scripts examples setup.py launch
	$(BIN)/ruff format --check src tests scripts examples setup.py launch
	$(BIN)/mypy
	$(BIN)/codespell README.md docs src tests scripts benchmarks config launch examples
	$(SOURCE_ROS) $(BIN)/pytest -n 2 -m "not lengthy and not slow and not weights" tests/unit

# Tests of whole nodes run one at a time: they have processes of their own, and time matters to them.
test: check
	$(SOURCE_ROS) $(BIN)/pytest -n 2 -m "lengthy and not slow and not weights" tests/unit
	$(SOURCE_ROS) $(BIN)/pytest -n 2 tests/integration
	$(SOURCE_ROS) $(BIN)/pytest tests/ros
	$(SOURCE_ROS) $(BIN)/pytest -m slow tests/integration/test_wheel.py
