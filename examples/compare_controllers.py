"""Compare the ensemble planner with planners that use a single model, on the same truth."""

import os

import emppi_ros as emppi

task = emppi.load_task(os.environ.get('TASK', 'panda_push'))
duration_s = float(os.environ.get('DURATION_S', task.file.duration_s))
print(f'{"controller":<14}{"success":>8}{"time [s]":>10}{"final error":>13}')
for controller in ('emppi', 'no-update', 'mppi-mean', 'mppi-true'):
    loop = emppi.ClosedLoop(task, seed=0, controller=controller)
    trace = loop.run(duration_s)
    error = trace.frames[-1].error
    print(f'{controller:<14}{trace.success!s:>8}{loop.robot.time:>10.2f}{error:>13.4f}')
