# make demo, make test: each does all the set-up it needs, from a fresh clone.
.DEFAULT_GOAL := help
.PHONY: help install demo test test-parallel test-alone test-slow test-slow-parallel test-slow-alone \
    test-launch test-drake test-peers test-warp gpu msgs reference docs fuzz lint bench smoke paper belief robustness caution csvgd dual learned identify real \
    articulate peers track video faults swaps conformance soak clean
.NOTPARALLEL:

VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.emppi_installed
MSGS_TOOLS ?= .venv-msgs
MSGS := $(shell find emppi_msgs test/control_msgs test/tf2_msgs -type f)
FRANKA_SIM ?= .venv-franka-sim
CONFORMANCE ?= .venv-conformance
PEERS_VENV ?= .venv-peers
WARP_VENV ?= .venv-warp
CONFORMANCE_STAMP := $(CONFORMANCE)/.emppi_installed
MINUTES ?= 30
# tests start hundreds of processes: without bytecode each compiles the package again
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make install   $(VENV), with rclpy from a sourced ROS 2 or from wheels"
	@echo "make demo      a Panda pushes a block of unknown mass and friction, over ROS 2"
	@echo "make test      all tests but the slow ones"
	@echo "make test-slow   the slow ones: whole commands and pages, campaigns, long simulations, installations"
	@echo "make test-drake   the simulator with Drake's physics"
	@echo "make test-warp   models on MuJoCo Warp, in an environment of its own; without a GPU, too"
	@echo "make gpu       plans and beliefs on a GPU: eight minutes at most"
	@echo "make test-peers   other people's planners, in an environment of its own"
	@echo "make test-launch   the launch file, by the tools of a sourced ROS 2 with a colcon build of this package"
	@echo "make msgs      emppi_msgs into $(VENV), without a ROS 2 installation; needs cmake and a C++ compiler"
	@echo "make reference the tables of docs/reference, from the code"
	@echo "make docs      the documentation as a site: out/docs/index.html"
	@echo "make fuzz      wrong YAML, messages and scenes, for an hour"
	@echo "make lint      ruff (rules and format) and mypy (types)"
	@echo "make faults    the fault matrix, filled in: docs/reliability.md (FAULTS=3000)"
	@echo "make swaps     tasks swapped in motion, and wrong ones refused (SWAPS=100)"
	@echo "make bench     the planner against bare physics"
	@echo "make smoke     every benchmark, so briefly that its results mean nothing"
	@echo "make paper     the paper's claims against runs of all tasks: docs/results.md; hours"
	@echo "make belief    estimators of parameters in worlds that change: docs/results_belief.md; hours"
	@echo "make robustness   when a task works, and when it does not: docs/results_robustness.md; hours"
	@echo "make caution   where learning decides, and forces while the belief narrows: docs/results_caution.md; an hour"
	@echo "make dual      EMPPI and DuSt-MPC on a pendulum that takes a load: docs/results_dual.md"
	@echo "make learned   MPPI with a learned model on the cart-pole: docs/results_learned.md"
	@echo "make identify   methods of identification on data with known truth: docs/results_identify.md"
	@echo "make csvgd CSVGD='--data FOLDER'   posteriors by CSVGD and by other samplers: docs/results_csvgd.md"
	@echo "make track     poses in simulated depth videos, beside iterative closest points: docs/results_track.md"
	@echo "make peers     other people's planners on their own tasks, in an environment of its own: docs/results_peers.md"
	@echo "make video   from depth videos to the parameters of a mechanism: docs/results_video.md"
	@echo "make real REAL='--data FOLDER'   identification from published recordings: docs/results_real.md"
	@echo "make articulate ARTICULATE='--data FOLDER'   joints and trees from tracks: docs/results_articulate.md"
	@echo "make conformance   backend franky, and the limiter, against franka-sim"
	@echo "make soak MINUTES=30   the whole graph with franka-sim, and its cost"

install: $(STAMP)

# Redone when the dependencies change, or after `rm -r $(VENV)`.
$(STAMP): setup.py setup.cfg pyproject.toml .ci/install
	@.ci/install "$(VENV)"
	@touch $@

demo: $(STAMP)
	$(BIN)/emppi demo panda_push --out out/demo

# most tests run on all cores with one thread each; those that check deadlines of nodes run alone
test: test-parallel test-alone
test-slow: test-slow-parallel test-slow-alone

test-parallel: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'not alone and not slow' $(TESTS)

test-alone: $(STAMP)
	$(BIN)/python -m pytest -m 'alone and not slow' test/ros

test-slow-parallel: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m 'slow and not alone'

test-slow-alone: $(STAMP)
	$(BIN)/python -m pytest -m 'slow and alone' test/ros

# the other physics engine of the simulator, a package of 200 MB
test-drake: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[drake]'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest test/unit/sim/test_drake_engine.py

# in the environment that is sourced: launch, launch_ros and ros2cli are not in the wheels
test-launch:
	@.ci/test-launch

# optional: tests that need emppi_msgs are skipped without it
msgs: $(VENV)/.emppi_msgs_built

$(VENV)/.emppi_msgs_built: $(STAMP) .ci/build-msgs $(MSGS)
	@.ci/build-msgs "$(VENV)" "$(MSGS_TOOLS)"
	@touch $@

# tables of the reference, from the code
reference: $(STAMP)
	PYTHONPATH=docs $(BIN)/python -m emppi_docs.generated docs

# from scratch, since it is generated from code; warnings are errors; `make test` builds it, too
docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W --keep-going -E -a -b html -d out/doctrees docs out/docs

# 100 000 YAML texts, 1 000 000 messages, 200 000 of them into the bridge
fuzz: $(STAMP)
	EMPPI_FUZZ_YAML=100000 EMPPI_FUZZ_MESSAGES=1000000 EMPPI_FUZZ_STREAM=200000 \
	    $(BIN)/python -m pytest test/fuzz -s

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/emppi bench planner --task panda_push

smoke: $(STAMP)
	@.ci/smoke $(BIN)/emppi out/smoke

# $(call publish,BENCH,FOLDER,OPTIONS): runs a benchmark, resuming from its rows in out or docs, and
# writes docs/FOLDER.md
define publish
	mkdir -p out/$(1) docs/$(2)
	[ -e out/$(1)/rows.jsonl ] || xz -dc docs/$(2)/rows.jsonl.xz > out/$(1)/rows.jsonl || rm out/$(1)/rows.jsonl
	$(BIN)/emppi bench $(1) --out out/$(1) $(3)
	for file in out/$(1)/*.png out/$(1)/*.csv; do [ ! -e $$file ] || cp $$file docs/$(2); done
	xz -9 -c out/$(1)/rows.jsonl > docs/$(2)/rows.jsonl.xz
	sed 's#](\([a-z0-9_]*[.]png\))#]($(2)/\1)#' out/$(1)/results.md > docs/$(2).md
endef

# PAPER='--tasks ...' selects runs
paper: $(STAMP)
	$(call publish,paper,results,$(PAPER))

# BELIEF='--tasks ... --estimators ...' selects runs
belief: $(STAMP)
	$(call publish,belief,results_belief,$(BELIEF))

# ROBUSTNESS='--seeds ... --sweeps ...' selects runs
robustness: $(STAMP)
	$(call publish,robustness,results_robustness,$(ROBUSTNESS))

# CAUTION='--seeds ... --tasks ...' selects runs
caution: $(STAMP)
	$(call publish,caution,results_caution,$(CAUTION))

# DUAL='--seeds ... --methods ...' selects runs
dual: $(STAMP)
	$(call publish,dual,results_dual,$(DUAL))

# LEARNED='--seeds ... --methods ...' selects runs
learned: $(STAMP)
	$(call publish,learned,results_learned,$(LEARNED))

# IDENTIFY='--families ... --methods ... --seeds ...' selects runs
identify: $(STAMP)
	$(call publish,identify,results_identify,$(IDENTIFY))

# CSVGD='--data FOLDER': the recordings of the real pendulum, which are not part of this repository
csvgd: $(STAMP)
	$(call publish,csvgd,results_csvgd,$(CSVGD))

# REAL='--data FOLDER': the recordings, which are not part of this repository
real: $(STAMP)
	$(call publish,real,results_real,$(REAL))

# TRACK='--seeds ... --videos ...' selects runs
track: $(STAMP)
	$(call publish,track,results_track,$(TRACK))

# VIDEO='--seeds ... --mechanisms ... --methods ...' selects runs
video: $(STAMP)
	$(call publish,video,results_video,$(VIDEO))

# ARTICULATE='--data FOLDER': also the published tracks, which are not part of this repository
articulate: $(STAMP)
	$(call publish,articulate,results_articulate,$(ARTICULATE))

# judo-rai asks for an older MuJoCo, so that the planners to compare with have an environment of their own
$(PEERS_VENV)/.emppi_installed: setup.py setup.cfg pyproject.toml .ci/install .ci/install-peers
	@.ci/install-peers "$(PEERS_VENV)"
	@touch $@

test-peers: $(PEERS_VENV)/.emppi_installed
	OMP_NUM_THREADS=1 $(PEERS_VENV)/bin/python -m pytest test/benchmarks/peers

# PEERS='--seeds ... --tasks ...' selects runs
peers: BIN := $(PEERS_VENV)/bin
peers: test-peers
	$(call publish,peers,results_peers,$(PEERS))

# Warp compiles kernels into this environment, which takes a minute
$(WARP_VENV)/.emppi_installed: setup.py setup.cfg pyproject.toml .ci/install
	@.ci/install "$(WARP_VENV)"
	@$(WARP_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[warp]'
	@touch $@

test-warp: $(WARP_VENV)/.emppi_installed
	OMP_NUM_THREADS=1 WARP_CACHE_PATH=$(abspath $(WARP_VENV))/cache $(WARP_VENV)/bin/python -m pytest \
	    test/unit/model/test_warp_batch.py

# GPU='--device warp-cpu --quick': without a GPU, so briefly that its results mean nothing
gpu:
	python3 -m benchmarks.gpu --venv $(WARP_VENV) $(GPU)

# Two environments of their own: franka-sim needs an older NumPy, franky is for real robots only.
$(FRANKA_SIM)/.emppi_installed: .ci/install-franka-sim
	@.ci/install-franka-sim "$(FRANKA_SIM)"
	@touch $@

$(CONFORMANCE_STAMP): setup.py setup.cfg pyproject.toml .ci/install
	@.ci/install "$(CONFORMANCE)"
	@$(CONFORMANCE)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[franka]'
	@touch $@

conformance: $(CONFORMANCE_STAMP) $(FRANKA_SIM)/.emppi_installed
	EMPPI_FRANKA_SIM=$(FRANKA_SIM) $(CONFORMANCE)/bin/python -m pytest test/conformance \
	    --ignore test/conformance/test_limiter_parity.py
	PYTHONPATH=. $(FRANKA_SIM)/bin/python -m pytest --confcutdir=test/conformance test/conformance/test_limiter_parity.py

# the states of controllers, which some of the faults are about
$(CONFORMANCE)/.emppi_msgs_built: $(CONFORMANCE_STAMP) .ci/build-msgs $(MSGS)
	@.ci/build-msgs "$(CONFORMANCE)" "$(MSGS_TOOLS)"
	@touch $@

# faults injected, at random moments: FAULTS=300 takes minutes, 3000 more than an hour
FAULTS ?= 3000
FAULTS_PAGE ?= docs/reliability.md
faults: $(CONFORMANCE)/.emppi_msgs_built $(FRANKA_SIM)/.emppi_installed
	EMPPI_FAULTS=$(FAULTS) EMPPI_FRANKA_SIM=$(FRANKA_SIM) PYTHONPATH=test/ros/faults \
	    $(CONFORMANCE)/bin/python -m faultlab.matrix $(FAULTS_PAGE)

# consecutive swaps, ten times as many invalid requests, a replay across a swap: their times are printed
SWAPS ?= 100
swaps: $(STAMP)
	EMPPI_SWAPS=$(SWAPS) $(BIN)/python -m pytest test/ros/test_swap_campaign.py test/ros/test_record.py -s

soak: $(CONFORMANCE_STAMP) $(FRANKA_SIM)/.emppi_installed
	EMPPI_FRANKA_SIM=$(FRANKA_SIM) $(CONFORMANCE)/bin/python test/conformance/soak.py --minutes $(MINUTES)

clean:
	rm -rf $(VENV) $(MSGS_TOOLS) $(CONFORMANCE) $(FRANKA_SIM) $(PEERS_VENV) $(WARP_VENV) build install log out *.egg-info
