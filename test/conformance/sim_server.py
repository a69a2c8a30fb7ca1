"""
franka-sim's server with a log of every command, and faults on request.

Runs in the simulator's own environment (numpy 1, mujoco 3.2), which has nothing of emppi_ros.
Lines on stdin: `reflex N` latches error N and aborts, `user-stop`, `release`, `torque X`
pretends an external torque on joint 2, `measure` answers with a line of JSON, `flush` writes
the log out.
"""

import argparse
import contextlib
import json
import logging
import os
import struct
import sys
import threading
import time

from franka_sim import FrankaSimServer
from franka_sim.server.constants import RobotMode

ROW = struct.Struct('<2d1Q7d7d')  # time, extrapolated, id, commanded velocity, measured position


class LoggingServer(FrankaSimServer):
    """Writes a row per command that reaches the arm."""

    def log_to(self, path):
        self._log = open(path, 'wb', buffering=1 << 16)

    def press(self):
        """Hold the user stop, whatever ends meanwhile, until it is released."""
        self.pressed = True
        while self.pressed:
            self.robot_state.state['robot_mode'] = RobotMode.kUserStopped
            time.sleep(5e-4)
        self.robot_state.state['robot_mode'] = RobotMode.kIdle

    def flush(self):
        self._log.flush()

    def _row(self, command, extrapolated):
        q = self.robot_state.state['q']
        row = (time.monotonic(), extrapolated, command['message_id'], *command['dq_c'], *q)
        self._log.write(ROW.pack(*row))

    def _dispatch_control_command(self, command, *, motion_generation=None):
        if any(command['dq_c']) or not self._idle_hold:
            self._row(command, float(motion_generation is not None))
        super()._dispatch_control_command(command, motion_generation=motion_generation)


def answer(server, line):
    """Do what a line on stdin asks for."""
    word, *rest = line.split()
    state = server.robot_state.state
    if word == 'reflex':
        server._abort_with_error(int(rest[0]), 'as a test asked for')
    elif word == 'user-stop':  # the robot stops a motion and says so until the button is released
        server._abort_with_error((), 'user stop, as a test asked for')
        threading.Thread(target=server.press, daemon=True).start()
    elif word == 'release':
        server.pressed = False
    elif word == 'torque':
        state['tau_ext_hat_filtered'] = [0.0, float(rest[0]), *[0.0] * 5]
    elif word == 'flush':
        server.flush()
    elif word == 'measure':
        arm = server.physics_sim.get_robot_state()
        now = {key: [float(x) for x in arm[key]] for key in ('q', 'dq')}
        now |= {'success': server.comm.success_rate}
        now |= {'errors': [i for i, on in enumerate(state['errors']) if on]}
        print(json.dumps(now), flush=True)


def listen(server):
    """Obey stdin until it is closed; then end."""
    for line in sys.stdin:
        answer(server, line)
    server.stop()


def main():
    """Serve one robot on libfranka's port."""
    parser = argparse.ArgumentParser()
    parser.add_argument('log')
    parser.add_argument('--enforce-comm', action='store_true')
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    with contextlib.suppress(OSError):  # a robot's controller waits for nobody either
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(5))
    server = LoggingServer(
        enable_gripper=False,
        enforce_motion_limits=True,
        enforce_comm_constraints=arguments.enforce_comm,
    )
    server.log_to(arguments.log)
    threading.Thread(target=listen, args=(server,), daemon=True).start()
    try:
        server.start()
    except KeyboardInterrupt:
        pass
    finally:
        server.flush()
        server.stop()


if __name__ == '__main__':
    main()
