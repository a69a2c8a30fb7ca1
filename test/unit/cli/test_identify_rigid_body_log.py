"""The log of a Panda with rotors and friction, as a polling logger writes it, and as it should."""

import json

import arm_experiment
import numpy as np
import pytest

from emppi_ros.cli import main
from emppi_ros.core.paths import ASSETS
from emppi_ros.identification.rigid_body import arm, excitation

pytestmark = pytest.mark.slow
JOINTS = [f'panda_joint{i}' for i in range(1, 8)]
STEP, LENGTH = 1e-3, 12.0
ROTORS = np.array([0.3, 0.3, 0.25, 0.25, 0.1, 0.08, 0.06])
VISCOUS = np.array([0.3, 0.4, 0.2, 0.3, 0.1, 0.1, 0.05])
DRY = np.array([0.5, 0.6, 0.4, 0.5, 0.25, 0.2, 0.15])
NEAR_REST = np.array([0.0, 0.0, 0.0, 0.3, 0.0, 0.0, 0.0])  # Stribeck friction of joint 4
OFFSET = np.array([0.1, -0.4, 0.2, -0.2, 0.05, 0.1, -0.03])
RESOLUTION = np.array([4 * [0.036] + 3 * [0.006]])  # N m, as of a Panda's sensors
TRUTH = {'mass': 1.3, 'x': 0.02, 'rotor': ROTORS[3], 'viscous': VISCOUS[1], 'dry': DRY[4]}
MODEL = f"""scene: {ASSETS / 'panda.xml'}
parameters:
  mass: {{field: body_mass, of: panda_link7, unit: kg, lower: 0.05, upper: 9.0}}
  x: {{field: body_ipos, of: panda_link7, element: 0, unit: m, size: 0.05}}
  rotor: {{field: dof_armature, of: panda_joint4, unit: kg m^2, lower: 0.0, size: 0.1}}
  viscous: {{field: dof_damping, of: panda_joint2, unit: N m s/rad, lower: 0.0}}
  dry: {{field: dof_frictionloss, of: panda_joint5, unit: N m, lower: 0.0, size: 0.5}}
"""


@pytest.fixture(scope='module')
def samples():
    """Return positions, velocities and torques (n, 7) that the robot measures each millisecond."""
    rng = np.random.default_rng(3)
    spec = arm.load_spec(ASSETS / 'panda.xml', joints=JOINTS[:1])
    held = spec.body('panda_link7')
    held.mass, held.ipos[0] = TRUTH['mass'], TRUTH['x']
    for body in spec.bodies:
        body.gravcomp = 0.0
    spec.compiler.fusestatic = True
    model = spec.compile()
    model.dof_frictionloss[:], model.dof_damping[:] = 0.0, VISCOUS
    model.dof_armature[:] = ROTORS
    motion = excitation.random_motion(arm_experiment.limits_of('panda'), 6.0, rng)
    states = excitation.evaluate_motion(motion, STEP * np.arange(round(LENGTH / STEP)))
    position, velocity, _ = states
    friction = np.sign(velocity) * (DRY + NEAR_REST * np.exp(-((velocity / 0.1) ** 2)))
    torque = arm.motion_torques(model, states) + friction + OFFSET
    noise = rng.standard_normal((3, *position.shape))
    seen = position + 1.5e-6 * noise[0]
    torque = torque + 0.04 * noise[2]
    return [
        1e-6 * np.round(seen / 1e-6),
        velocity + 2e-4 * noise[1],
        RESOLUTION * np.round(torque / RESOLUTION),
    ]


def identify(folder, capsys, time, rows, *words):
    """Return the result of the command."""
    (folder / 'panda.yaml').write_text(MODEL)
    units = {'position': 'rad', 'velocity': 'rad/s', 'effort': 'N m'}
    names = [f'{kind}/{joint} [{unit}]' for kind, unit in units.items() for joint in JOINTS]
    table = np.column_stack([time, *rows])
    header = ','.join(['time_s', *names])
    np.savetxt(folder / 'log.csv', table, delimiter=',', header=header, comments='', fmt='%.9g')
    command = ['identify', '--method', 'rigid-body', '--data', str(folder / 'log.csv')]
    command += ['--model', str(folder / 'panda.yaml'), '--held-out', '0.3', '--json', *words]
    assert main(command) == 0
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def polled(rng):
    """Return the samples that a logger finds at steps of 0.8 to 1.6 ms, and its stamps."""
    stamps = np.cumsum(rng.uniform(0.8e-3, 1.6e-3, 20_000))
    stamps = stamps[stamps < LENGTH - STEP]
    return np.floor(stamps / STEP).astype(int), stamps


@pytest.mark.parametrize('log', ['clean', 'polled'])
def test_the_truth_is_within_its_intervals(log, samples, tmp_path, capsys, rng):
    index = np.arange(len(samples[0]))
    time = STEP * index
    if log == 'polled':
        index, time = polled(rng)
    result = identify(tmp_path, capsys, time, [row[index] for row in samples])
    assert ('replaced by robot time' in result.get('notes', '')) == (log == 'polled')
    for name, row in result['parameters'].items():
        # one in a million is beyond five standard deviations
        assert row['value'] == pytest.approx(TRUTH[name], abs=5.0 * row['sd'])
        assert row['knowledge'] == 'found'
    rotors, sd = (np.array(list(result[key].values())) for key in ('armature', 'armature_sd'))
    assert np.all(np.abs(rotors - ROTORS) < 5.0 * sd)
    speeds = np.array(list(result['stribeck_velocity'].values()))
    np.testing.assert_array_equal(speeds > 0.0, NEAR_REST > 0.0)
    (own,) = result['recordings'].values()
    assert own['left_in_noise'] < 1.5
    for name, percent in result['held_out_percent'].items():
        # without misfit both forecast up to noise, which is the same for both
        assert percent < 1.05 * result['least_squares_percent'][name]
