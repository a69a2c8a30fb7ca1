"""The ways of the data: how many files an input passes to the belief and to a plan."""

from collections.abc import Callable
from pathlib import Path
import sys
from types import FrameType

import mujoco
import numpy as np
import pytest

from emppi_ros.belief.belief_session import BeliefSession
from emppi_ros.model import scene
from emppi_ros.planning.planner import Planner
from emppi_ros.tracking import camera, renderer
from emppi_ros.tracking.fitting import TrackedParts, TrackerConfig
from emppi_ros.tracking.tracker import PartTracker

PACKAGE = Path(__file__).resolve().parents[2] / 'emppi_ros'
# the vocabulary that all rooms share, such as models and tasks, is not part of a way
ROOMS = {'journal', 'state', 'belief', 'planning', 'strategies'}
NODE = {'nodes/common/inputs.py', 'nodes/common/convert.py'}  # subscription and conversion
SCENE = """
<mujoco><worldbody>
  <geom type="plane" size="4 4 0.1"/>
  <body pos="0 0 0.2"><freejoint/><geom type="box" size="0.12 0.08 0.06"/></body>
</worldbody></mujoco>"""
DOWN = np.diag([1.0, -1.0, -1.0])  # orientation of a camera


def files(call: Callable[[], object], rooms: set[str] = ROOMS) -> set[str]:
    """Return the files of these rooms in which a function runs."""
    passed: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == 'call' and path.is_relative_to(PACKAGE):
            passed.add(str(path.relative_to(PACKAGE)))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {path for path in passed if path.split('/')[0] in rooms}


@pytest.mark.parametrize(
    ('node', 'most'), [('nodes/belief/node.py', 14), ('nodes/planner/node.py', 11)]
)
def test_a_joint_state_passes_few_files(make_task, node: str, most: int) -> None:
    task = make_task('slider')
    belief, planner = BeliefSession(task, 0), Planner(task, 0)
    planner.set_belief(belief.filter.belief)

    def arrive(stamp: float) -> None:
        for session in (belief, planner):
            session.add_joints(stamp, np.zeros(1), np.ones(1))
            session.add_command(stamp, np.ones(1))

    def learn() -> None:
        for stamp in np.arange(1, 40) * 0.02:  # longer than between two drifts
            arrive(float(stamp))
            belief.update()

    def plan() -> None:
        arrive(1.0)
        planner.plan(1.0)

    learned = files(learn)
    assert belief.counts['updates'] and belief.counts['resampled']
    way = {node, *NODE, *(learned if 'belief' in node else files(plan))}
    assert all((PACKAGE / path).is_file() for path in way)
    assert len(way) <= most, '\n'.join(sorted(way))


def test_a_depth_image_passes_few_files() -> None:
    model, view = mujoco.MjModel.from_xml_string(SCENE), camera.at(80, 60, 45.0, [0, 0, 2], DOWN)
    data, behind = (
        scene.kinematics(model, model.qpos0),
        renderer.render_background(model, [1], view),
    )
    parts = TrackedParts(TrackerConfig(), model, [1], view, behind)
    tracker, images = PartTracker(parts, renderer.body_poses(data, [1])), []
    for shift in (0.0, 0.05, 5.0, 0.2):  # it vanishes, and is found again
        data.qpos[0] = shift
        mujoco.mj_kinematics(model, data)
        images.append(renderer.render_scene(model, data, view))
    seen: list[str] = []

    def see() -> None:
        seen.extend(tracker.track(i / 30.0, image)[0].status for i, image in enumerate(images))

    way = files(see, {'tracking'})
    assert seen == ['tracked', 'tracked', 'lost', 'tracked']
    # a message is read and a pose published; then that passes what a joint state passes
    way |= {'nodes/tracker/node.py', 'tracking/camera_messages.py', *NODE, 'nodes/belief/node.py'}
    assert all((PACKAGE / path).is_file() for path in way)
    assert len(way) <= 11, sorted(way)
