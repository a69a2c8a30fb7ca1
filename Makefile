# make demo, make test: each does all the set-up it needs, from a fresh clone.
.DEFAULT_GOAL := help
.PHONY: help install demo test fuzz lint bench clean

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.emppi_installed

help:
	@echo "make install   $(VENV), with rclpy from a sourced ROS 2 or from wheels"
	@echo "make demo      a Panda pushes a block of unknown mass and friction, over ROS 2"
	@echo "make test      all tests"
	@echo "make fuzz      wrong YAML, messages and scenes, for an hour"
	@echo "make lint      ruff: rules and format"
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

# 100 000 YAML texts, 1 000 000 messages, 200 000 of them into the bridge
fuzz: $(STAMP)
	EMPPI_FUZZ_YAML=100000 EMPPI_FUZZ_MESSAGES=1000000 EMPPI_FUZZ_STREAM=200000 \
	    $(BIN)/python -m pytest test/fuzz -s

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: $(STAMP)
	$(BIN)/emppi bench planner --task panda_push

clean:
	rm -rf $(VENV) build install log out *.egg-info
