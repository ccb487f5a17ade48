# make demo    set up and let the simulated robot find an object
# make test    set up and run all checks and tests
# make setup   set up only; a second run takes under a second
INSTRUCTION ?= find the silver bottle
DEMO_OPTIONS ?=
VENV := .venv/bin
# An installed ROS 2 belongs to the system's Python; without one any of the three versions will do.
PYTHON ?= $(shell sh scripts/find_python.sh)

# With an installed ROS 2 the tests need what its set-up sets; without one this environment has it all.
SOURCE_ROS := $(if $(wildcard /opt/ros/*/setup.sh),. .venv/setup.sh &&)

# Idle threads must sleep, not spin: on two cores spinning costs more than the arithmetic.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: demo test setup check-python
.DEFAULT_GOAL := demo

check-python:
	@test -n "$(PYTHON)" || { echo "error: no Python 3.10, 3.11 or 3.12 found; run: sudo apt-get install -y python3 python3-venv, or: make PYTHON=/path/to/python3.11" >&2; exit 1; }

setup: check-python
	@$(PYTHON) scripts/setup_env.py

demo: setup
	@$(VENV)/outrider demo "$(INSTRUCTION)" $(DEMO_OPTIONS)

# Those of whole nodes run one at a time: they have processes of their own, and time matters to them.
test: setup
	@sh scripts/get_test_tools.sh $(VENV)
	$(VENV)/ruff check src tests scripts setup.py launch
	$(VENV)/ruff format --check src tests scripts setup.py launch
	$(VENV)/mypy
	$(SOURCE_ROS) $(VENV)/pytest -n 2 tests/unit
	$(SOURCE_ROS) $(VENV)/pytest tests/integration tests/ros
