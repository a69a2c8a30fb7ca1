"""
A process that drives a robot by the backend `franky`, as the bridge does, without its graph.

It says `moving` once the arm moves, and writes faults and figures as lines of JSON. A line on
stdin: `hog S` keeps Python from running for S seconds, `recover` asks for recovery.
"""

import argparse
import contextlib
import ctypes
import json
import os
import queue
import sys
import threading
import time

import numpy as np
import rclpy
from rclpy.node import Node
from rclpy.parameter import Parameter

from emppi_ros.bridge import jerk_limiter
from emppi_ros.core.errors import EmppiError
from emppi_ros.nodes.backends import BackendCommand
from emppi_ros.nodes.backends.franky import FrankyBackend
from emppi_ros.nodes.common.clock_sync import CommandClock
from emppi_ros.robots import velocity_bounds
from emppi_ros.robots.robot import load_robot

PERIOD_S = 0.004
_NEW_TARGET_S = 0.5


def say(**words):
    print(json.dumps(words), flush=True)


def drive(backend, robot, seconds, speed, seed, orders, measured):
    """Follow random velocities for a time; return (n, 15): time, wanted, followed."""
    rng, rows = np.random.default_rng(seed), []
    began = now = time.monotonic()
    command = jerk_limiter.at_rest(robot, np.array(robot.home))
    target, drawn, told, moving = np.zeros(7), -np.inf, '', False
    while now - began < seconds:
        if not orders.empty():
            obey(backend, orders.get())
        fault, measured = backend.fault(), backend.measure() or measured
        if fault != told:
            say(fault=fault, time=time.monotonic())
            told = fault
        now = time.monotonic()
        if now - drawn > _NEW_TARGET_S:
            target, drawn = rng.uniform(-speed, speed, 7), now
        rest = fault or now - began > seconds - 1.0
        if fault:
            command = jerk_limiter.at_rest(robot, measured.position)
        wanted = None if rest else target
        bounds = velocity_bounds.velocity_bounds(robot, measured.position, PERIOD_S)
        wanted = None if wanted is None else velocity_bounds.clamp(wanted, *bounds)
        command = jerk_limiter.shape(robot, command, wanted, measured.position, PERIOD_S)
        followed = backend.send(BackendCommand(now, command, measured.position, not rest))
        if not moving and np.max(np.abs(measured.velocity)) > 0.3 * speed:
            moving = True
            say(moving=True)
        rows.append((now, *command.value, *followed))
        time.sleep(PERIOD_S)
    return np.array(rows)


def obey(backend, line):
    """Do what a line on stdin says."""
    word, *rest = line.split()
    if word == 'hog':  # a call by PyDLL keeps the interpreter's lock
        ctypes.PyDLL(None).usleep(int(1e6 * float(rest[0])))
    elif word == 'recover':
        try:
            backend.recover()
            say(recovered=True)
        except EmppiError as error:
            say(refused=str(error))


def main():
    """Drive, and save what was sent."""
    parser = argparse.ArgumentParser()
    parser.add_argument('out')
    parser.add_argument('--seconds', type=float, default=10.0)
    parser.add_argument('--speed', type=float, default=0.5)
    parser.add_argument('--seed', type=int, default=0)
    arguments = parser.parse_args()
    orders = queue.Queue()
    with contextlib.suppress(OSError):  # as the bridge does
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))
    rclpy.init()
    settings = {'fci_address': '127.0.0.1', 'realtime': 'ignore'}
    node = Node('client', parameter_overrides=[Parameter(k, value=v) for k, v in settings.items()])
    robot = load_robot('fr3')
    backend = FrankyBackend(node, robot, CommandClock(node))
    while (measured := backend.measure()) is None:
        time.sleep(PERIOD_S)
    threading.Thread(target=lambda: [orders.put(line) for line in sys.stdin], daemon=True).start()
    rows = drive(
        backend, robot, arguments.seconds, arguments.speed, arguments.seed, orders, measured
    )
    np.save(arguments.out, rows)
    backend.close()
    say(sent=backend.connection.sent, fault=backend.fault())


if __name__ == '__main__':
    main()
