# make demo    set up and let the simulated robot find an object
# make check   set up, lint, check types and run the quick unit tests
# make test    the same, then the lengthy unit tests, the integration tests and the tests of ROS nodes
# make docs    build the documentation into site/; a warning is an error
# make links   request every web page that the documents link to; needs a network
# make figures write the documents' figures and pictures from benchmarks/results/
# make setup   set up only; a second run takes under a second
# make weights download published language models (1.6 GB) for `outrider bench weights` and `pytest -m weights`
# make test ROS_DISTRO=kilted PYTHON=python3.13    test with another ROS 2 and Python, in .venv-kilted
INSTRUCTION ?= find the silver bottle
DEMO_OPTIONS ?=
# ROS_DISTRO on the command line selects an environment of its own; one set by a sourced ROS 2 uses .venv.
VENV ?= .venv$(if $(findstring command line,$(origin ROS_DISTRO)),-$(ROS_DISTRO))
BIN := $(VENV)/bin
# An installed ROS 2 needs the system's Python. Without one, any Python from 3.10 to 3.14 will do.
PYTHON ?= $(shell sh scripts/find_python.sh $(VENV))

# With an installed ROS 2, the tests need the variables that its setup script sets. Without one, the virtual
# environment is complete.
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

# Downloads to the user's cache, or to $OUTRIDER_WEIGHTS. The hash of each file is pinned.
weights: setup
	@$(BIN)/python scripts/get_weights.py

# mkdocs-material announces other products on every run; NO_MKDOCS_2_WARNING suppresses that.
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

# Tests of whole nodes run one at a time: they start processes of their own and depend on timing.
test: check
	$(SOURCE_ROS) $(BIN)/pytest -n 2 -m "lengthy and not slow and not weights" tests/unit
	$(SOURCE_ROS) $(BIN)/pytest -n 2 tests/integration
	$(SOURCE_ROS) $(BIN)/pytest tests/ros
	$(SOURCE_ROS) $(BIN)/pytest -m slow tests/integration/test_wheel.py
