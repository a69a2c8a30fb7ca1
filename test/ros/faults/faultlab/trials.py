"""One fault: the arm moves, something breaks at a random moment, and the oracle judges."""

import dataclasses
import os
import signal
import time
from typing import NamedTuple

import numpy as np

from emppi_ros.nodes.common import interfaces
from faultlab import actors, oracle
from faultlab.witness import covered

ONSET_S, REST_S = 0.110, 0.220  # from the start of the last good plan, or the last good state
FORGIVEN_S = 0.130  # a plan that comes before this age lets the arm go on
PERIOD_S = 0.004  # of the bridge
# trajectories lead by 16 ms, 3 of them to arrive: on a machine that wakes nobody for the others
# what is on its way is overtaken by the arm, and not even limits can be judged
STOOD_STILL_S = 0.013
# beyond what is allowed and not the machine's: what no witness sees, seldom; no later than that,
# because what a controller was sent brakes by itself 40 ms after it was sent
LATEST_S = 0.05
STALL_S = 0.03  # of robot or bridge, for want of a processor: 50 ms make joint states late
SILENT_S = 2.5 * PERIOD_S  # of a controller that is active, to the bridge: it may not be
WATCH_S = 0.32  # how long after a fault the record goes on: the arm must be at rest by 0.22
AFTER_S = 0.1  # and then, with plans or states coming again
SAID_S = 1.0  # for the last word, where the machine is busy
ROUNDING = 1e-9
_PATIENCE_S = 3.0  # for a bridge that was just stopped
_TRIES = 3  # of a fault, where the arm was stopped before
_ROOM = 0.25  # rad from the middle: farther away it goes back
_GENTLE = 0.05  # rad/s^2 beyond what the plans ask for is braking
# rad/s against its own direction: a joint that comes to rest between two points, T = 1 to 1.25 ms
# apart, at a jerk j of up to 1960 rad/s^3. The quintic between them passes rest by up to
# 0.0048 j T^2 if it only braked between them, by 0.0106 j T^2 if it turned its jerk round there
# as well (the worst of all ways with up to four phases: test_oracle.py); back by some 1e-8 rad
REVERSED = 0.0106 * 1960.0 * 1.25e-3**2
# a stamp is taken some microseconds after the cycle's own time: see `tolerance`
STAMPS_S = 5e-5


@dataclasses.dataclass(frozen=True)
class Fault:
    """What breaks, and what the bridge is to say of it."""

    name: str
    breaks: str  # planner, state or controller
    code: str  # of the fault it ends in; '' if the arm is to go on
    onset_s: float = ONSET_S
    backends: tuple[str, ...] = ('trajectory', 'forward')


FAULTS = (
    Fault('kill', 'planner', 'plan-late'),
    Fault('stop 50 ms', 'planner', ''),
    Fault('stop 150 ms', 'planner', 'plan-late'),
    Fault('stop 500 ms', 'planner', 'plan-late'),
    Fault('nan', 'planner', 'plan-late'),
    Fault('inf', 'planner', 'plan-late'),
    Fault('huge', 'planner', 'plan-late'),
    Fault('silent', 'planner', 'plan-late'),
    Fault('late', 'planner', 'plan-late'),
    Fault('state lost', 'state', 'state-late'),
    Fault('state nan', 'state', 'state-late'),
    Fault('state frozen', 'state', 'state-frozen', 0.2),  # 5 mrad of travel to find it
    Fault('state jump', 'state', 'state-jump'),
    # for up to LONGEST_S; noticed by its states, which control_msgs has
    Fault('controller inactive', 'controller', 'robot', backends=('trajectory',)),
    Fault('controller goal', 'controller', 'robot', backends=('trajectory',)),
    Fault('controller scaled', 'controller', 'robot', backends=('trajectory',)),
)
# s, of the faults of a controller. Silence shows 10 ms after its last state, and what was sent
# until then arrives up to 10 ms later: inactive for less, the arm may step (docs/bridge.md)
SHORTEST_S, SHORTEST_SILENCE_S, LONGEST_S = 0.012, 0.03, 0.2
STEP_RAD = 1e-3  # of the arm from one joint state to the next, beyond its motion at the fault
KILLS = 3  # the planner's death counts this often among the faults


def possible(backend):
    """Return the faults of a backend; those of the controller show in messages of control_msgs."""
    watched = interfaces.JointTrajectoryControllerState is not None
    kinds = [fault for fault in FAULTS if watched or fault.breaks != 'controller']
    return [fault for fault in kinds if backend in fault.backends]


@dataclasses.dataclass
class Result:
    """What one fault did. Times in ms, from the start of the last good plan or state."""

    fault: str
    backend: str
    phase_ms: float = np.nan
    onset_ms: float = np.nan
    rest_ms: float = np.nan
    speed: float = np.nan  # rad/s, at the fault
    peaks: tuple = ()  # of velocity, acceleration, jerk: shares of what is allowed, as meant
    peaks_sent: tuple = ()  # the same with the moments at which messages were sent
    sent_late_ms: float = np.nan
    stood_still_ms: float = np.nan  # the machine itself, see witness.py
    excuse_ms: float = np.nan  # in which the bridge got no processor, until braking began
    reversal: float = 0.0
    said: str = ''
    disturbed: str = ''  # what else went wrong, on the machine: see `_disturbed`, STOOD_STILL_S
    needless: str = ''  # why it stopped though a plan came in time: safe, but of no use
    late: str = ''  # what came later than it must, and nobody saw the machine do it
    unprovoked: str = ''
    violations: list = dataclasses.field(default_factory=list)

    @property
    def judged(self):
        """Whether it shows what the bridge does, and not what the machine did."""
        return not self.unprovoked and bool(self.stood_still_ms <= 1e3 * STOOD_STILL_S)


def run(graph, fault, rng):
    """Break something once; leave the graph as it was before."""
    result = Result(fault.name, graph.backend)
    try:
        return _run(graph, fault, rng, result)
    except AssertionError as error:  # of the laboratory, or a stop before the fault
        result.unprovoked = str(error)
        return result


def run_surely(graph, fault, rng):
    """Run once, or again where something stopped the arm before, such as a machine at rest."""
    for _ in range(_TRIES):
        result = run(graph, fault, rng)
        if not result.unprovoked:
            break
    return result


def _run(graph, fault, rng, result):
    begin, speeds = get_moving(graph, rng)
    since, broken = _break(graph, fault, rng)
    graph.listen(WATCH_S)
    good = {'planner': graph.good_plan.value, 'state': graph.good_state.value}
    since = since or good.get(fault.breaks, broken)
    result.phase_ms = 1e3 * (broken - since)
    _mend(graph, fault, speeds)
    graph.listen(AFTER_S)
    end = time.time()
    while graph.status.get('state') == 'stopping' and time.time() < end + SAID_S:
        graph.listen(0.02)
    # what the arm was told is not known then: so it is where this process gets no processor
    assert not graph.lost, f'the record lacks {graph.lost} commands'
    _judge(graph, fault, speeds, _Times(begin, since, broken, end), result)
    return result


def get_moving(graph, rng):
    """Arm, and let the arm move; return when it began, and the speeds. AssertionError if not."""
    if not graph.planner.is_alive():
        graph.new_planner()
    graph.tell('silent')
    graph.tell_robot('ok')
    graph.arm(armed=False)
    graph.forget()
    began = time.time()
    while not (answer := graph.arm()).success:
        assert time.time() < began + _PATIENCE_S, f'could not arm: {answer.message}'
        graph.listen(0.05)
    begin, speeds = time.time(), _speeds(graph, rng)
    graph.tell('go', speeds)
    # three in four at full speed, the others on the way to it
    enough = 0.9 * (1.0 - speeds.swing) * max(map(abs, speeds.mean))
    enough = enough if rng.random() < 0.75 else 0.02
    graph.wait_for(lambda: graph.speed > enough, 'no motion', _PATIENCE_S)
    graph.listen(rng.uniform(0.0, 0.15))
    assert graph.status.get('state') != 'held', f'stopped by itself: {graph.status}'
    return begin, speeds


def _speeds(graph, rng):
    """Return speeds of some joints, away from where the arm has gone."""
    signs = np.where(rng.random(7) < 0.5, -1.0, 1.0)
    away = graph.position - actors.START
    signs = np.where(np.abs(away) > _ROOM, -np.sign(away), signs)
    size = np.zeros(7)
    chosen = rng.choice(7, rng.integers(1, 8), replace=False)
    size[chosen] = rng.uniform(0.05, 1.0, len(chosen))
    size *= (0.5 if rng.random() < 0.5 else rng.uniform(0.1, 0.5)) / size.max()
    swing = 0.0 if rng.random() < 0.6 else 0.5
    return actors.Speeds(tuple((signs * size).tolist()), swing, rng.uniform(0.2, 0.8))


def _break(graph, fault, rng):
    """Break something; return the start of the last good plan if it is known, and when."""
    name, broken = fault.name, time.time()
    if name == 'kill':
        actors.kill(graph.planner)
    elif name.startswith('stop'):
        os.kill(graph.planner.pid, signal.SIGSTOP)
        graph.listen(1e-3 * float(name.split()[1]))
        # it may be stopped while it sends one, after the bridge has got it and before we do
        since = graph.good_plan.value
        os.kill(graph.planner.pid, signal.SIGCONT)
        return since, broken
    elif fault.breaks == 'planner':
        graph.tell(name, rng.uniform(0.2, 0.4))
    elif fault.breaks == 'controller':
        graph.tell_robot(name.split()[1])
        shortest = SHORTEST_SILENCE_S if fault.name == 'controller inactive' else SHORTEST_S
        graph.listen(rng.uniform(shortest, LONGEST_S))  # and then it is as before
        graph.tell_robot('ok')
    else:
        graph.tell_robot(name.split()[1], 0.2)  # rad, of a jump
    return None, broken


def _mend(graph, fault, speeds):
    """Let good plans and joint states come again: nothing may move."""
    if fault.name == 'kill':
        graph.new_planner()
    if fault.breaks == 'planner' and fault.code:
        graph.tell('go', speeds)
    graph.tell_robot('ok')


class _Times(NamedTuple):
    """Moments of a trial [s, system clock]."""

    begin: float
    since: float  # start of the last good plan, or the last good state
    broken: float
    end: float


def _judge(graph, fault, speeds, times, result):
    """Fill in what was seen, and what of it must not be."""
    meant, sent = (graph.motion(times.begin, times.end, nominal) for nominal in (True, False))
    # forward's commands come late by chance, and are held: the steps are those that it meant.
    # What becomes of trajectories is what counts, whenever they come
    judged = meant if graph.backend == 'forward' else sent
    result.peaks, result.peaks_sent = oracle.peaks(judged), oracle.peaks(sent)
    late = np.array([one.time for one in graph.commands]) - np.array(graph.nominal())
    result.sent_late_ms = 1e3 * float(late.max())
    report = graph.status
    code = _expected(graph, fault, times)
    result.disturbed = _disturbed(graph, fault, report.get('fault'), times)
    stalls = graph.witness.stalls()
    stood_still = covered(stalls, times.since, times.broken + WATCH_S)
    result.stood_still_ms = 1e3 * stood_still
    known = graph.intervals_without(times.since, times.broken + WATCH_S, 2 * PERIOD_S)
    excuses = np.vstack([known, stalls]) - graph.epoch
    times = _Times(*(moment - graph.epoch for moment in times))
    result.speed = oracle.speed(sent, times.broken)
    result.said = f'{report.get("state", "")} {report.get("fault", "")}'.strip()
    blame = result.violations.append
    allowed = 1.0 + tolerance(graph.backend)
    if stood_still > STOOD_STILL_S:
        result.disturbed = f'the machine stood still for {1e3 * stood_still:.0f} ms'
        return
    for name, peak in zip(oracle.Peaks._fields, result.peaks, strict=True):
        if not peak <= (1.0 + ROUNDING if name == 'velocity' else allowed):
            blame(f'{name}: {peak:.3f} of what is allowed')
    if code == '' and not result.disturbed:  # it was forgiven
        if oracle.first_rest(sent, times.broken) < times.end:
            result.needless = f'stopped, but was to go on; it says {report}'
        return
    if fault.breaks == 'controller':
        _judge_steps(graph, times, result)
    rest = oracle.first_rest(sent, times.broken)
    result.rest_ms = 1e3 * (rest - times.since)
    result.reversal = oracle.reversal(judged, times.broken, rest)
    if result.reversal > REVERSED:
        blame(f'turned back at {result.reversal:.2g} rad/s')
    if code is None or result.disturbed:
        return
    begun = oracle.onset(sent, times.since, speeds.gentle + _GENTLE)
    result.onset_ms = 1e3 * (begun - times.since)
    _judge_times(fault, times, excuses, (begun, rest), result)
    if oracle.moves(sent, rest):
        blame('moved again without being armed')
    if result.said != f'held {code}':
        blame(f'says {result.said!r}, expected held {code}')


def _judge_steps(graph, times, result):
    """Fill in steps of the arm, which come about where it does not follow what is sent."""
    rows = [one.message for one in graph.states if one.time - graph.epoch > times.broken]
    moved = np.diff([row.position for row in rows], axis=0)
    stamps = np.array([row.header.stamp.sec + 1e-9 * row.header.stamp.nanosec for row in rows])
    steps = np.abs(moved).max(axis=1) - result.speed * np.diff(stamps)
    if len(steps) and steps.max() > STEP_RAD:
        result.violations.append(f'the arm made a step of {1e3 * steps.max():.1f} mrad')


def _judge_times(fault, times, excuses, moments, result):
    """Fill in what came too late, but for the time in which nobody got a processor."""
    later = fault.onset_s - ONSET_S
    allowed = (('braking began', fault.onset_s), ('at rest', REST_S + later))
    excused = [covered(excuses, times.since, min(moment, times.end)) for moment in moments]
    result.excuse_ms = 1e3 * excused[0]
    for (words, most), moment, excuse in zip(allowed, moments, excused, strict=True):
        beyond = moment - times.since - most
        said = f"{words} {1e3 * beyond:.1f} ms too late, {1e3 * excuse:.1f} are the machine's"
        if not beyond <= LATEST_S + excuse:
            result.violations.append(said)
        elif beyond > excuse:
            result.late = said
        elif beyond > 0.0:
            result.disturbed = said


def _disturbed(graph, fault, code, times):
    """
    Return what the machine did beside the fault, '' if nothing.

    A process that gets no processor for 30 ms, or messages that are not delivered (the bridge
    then says that joint states are late, or that the arm does not follow), are faults of their
    own: the arm stops, or goes on, by another clock. How often that may be is for the campaign.
    """
    stall = graph.stall(times.begin, times.broken + WATCH_S)
    if stall > STALL_S:
        return f'a process stood still for {1e3 * stall:.0f} ms'
    if fault.breaks == 'planner' and code in ('state-late', 'residual'):
        return f'{code} while only the planner was broken'
    if fault.breaks == 'controller':
        states = [one.time for one in graph.states if one.time > times.broken - SILENT_S]
        stall = float(np.max(np.diff(states), initial=0.0))
        if stall > SILENT_S:
            return f'the robot, with its controller, stood still for {1e3 * stall:.0f} ms'
    return ''


def _expected(graph, fault, times):
    """Return the code in which it is to end, '' if it is to go on, None if either is right."""
    if not fault.name.startswith('stop'):
        return fault.code
    later = [one.time for one in graph.plans if one.time > times.broken]
    age = later[0] - times.since if later else np.inf
    return fault.code if age > FORGIVEN_S + 0.01 else '' if age < ONSET_S - 0.01 else None


def tolerance(backend):
    """
    Return by what share differences may be too large, for moments that are known so well only.

    forward: when a command was made is known from a stamp that was taken a little later. An
    interval of 4 ms that is wrong by e changes a difference by e / 4 ms, and that of two by twice
    this. trajectory: points are stamped in nanoseconds, n, and 1 ms = T apart; a way of v n more
    or less than meant is made up for with a jerk of up to 60 v n / T^3, of at least 750 rad/s^3.
    """
    if backend == 'forward':
        return 2.0 * STAMPS_S / 4e-3
    return 60.0 * 0.5 * 1e-9 / 1e-3**3 / 750.0
