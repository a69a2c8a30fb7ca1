# make demo, make test: each does all the set-up it needs, from a fresh clone.
.DEFAULT_GOAL := help
.PHONY: help install demo test lint bench faults clean

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.emppi_installed

help:
	@echo "make install   $(VENV), with rclpy from a sourced ROS 2 or from wheels"
	@echo "make demo      a Panda pushes a block of unknown mass and friction, over ROS 2"
	@echo "make test      all tests"
	@echo "make lint      ruff: rules and format"
	@echo "make faults    the fault matrix, filled in: docs/reliability.md (FAULTS=3000)"
	@echo "make bench     the planner against bare physics"

install: $(STAMP)

# Redone when the dependencies change, or after `rm -r $(VENV)`.
$(STAMP): setup.py setup.cfg pyproject.toml .ci/install
	@.ci/install "$(VENV)"
	@touch $@

demo: $(STAMP)
	$(BIN)/emppi demo panda_push --out out/demo

test: $(STAMP)
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(STAMP)
	$(BIN)/emppi bench planner --task panda_push

# faults injected, at random moments: FAULTS=300 takes minutes, 3000 about an hour
FAULTS ?= 3000
faults: $(STAMP)
	EMPPI_FAULTS=$(FAULTS) PYTHONPATH=test/ros/faults $(BIN)/python -m faultlab.matrix

clean:
	rm -rf $(VENV) build install log out *.egg-info
