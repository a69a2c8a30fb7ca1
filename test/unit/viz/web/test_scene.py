"""The browser shows MuJoCo's geoms at the same positions, sizes and colours."""

import mujoco
import numpy as np
import pytest

from emppi_ros.priors.particles import Belief
from emppi_ros.tasks.task import load_task
from emppi_ros.viz.shapes.shapes import Label
from emppi_ros.viz.shapes.task_shapes import DisplayState, TaskShapes
from emppi_ros.viz.web import scene as browser_scene
from emppi_ros.viz.web import shape_nodes
from emppi_ros.viz.web.scene import BrowserScene

KINDS = """
<mujoco>
  <asset>
    <mesh name="wedge" vertex="0 0 0  1 0 0  0 2 0  0 0 3"/>
    <material name="green" rgba="0.1 0.8 0.2 0.5"/>
  </asset>
  <worldbody>
    <geom name="plane" type="plane" size="2 3 0.1"/>
    <body name="all" pos="0.1 0.2 0.3" euler="10 20 30">
      <freejoint/>
      <geom name="box" type="box" size="0.1 0.2 0.3" pos="1 0 0" euler="30 0 10" material="green"/>
      <geom name="ball" type="sphere" size="0.2" rgba="0.9 0.1 0.3 1" material="green"/>
      <geom name="egg" type="ellipsoid" size="0.1 0.2 0.3" euler="0 40 0"/>
      <geom name="pipe" type="cylinder" size="0.1 0.4" pos="0 1 0"/>
      <geom name="pill" type="capsule" fromto="0 0 0 0.3 0.2 0.1" size="0.05"/>
      <geom name="wedge" type="mesh" mesh="wedge" pos="0 0 1"/>
      <geom name="hidden" type="box" size="1 1 1" group="3"/>
      <geom name="clear" type="box" size="1 1 1" rgba="1 0 0 0"/>
    </body>
  </worldbody>
</mujoco>
"""
ROUND = 0.03  # of a size: triangles of 24 sides cut a circle by 1 - cos(pi / 24) = 0.009 at most


@pytest.fixture(scope='module')
def kinds() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(KINDS)


def drawn(model: mujoco.MjModel, qpos: np.ndarray) -> dict[int, mujoco.MjvGeom]:
    """Return by id the geoms that MuJoCo itself would draw."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    scene, camera = mujoco.MjvScene(model, 2000), mujoco.MjvCamera()
    mujoco.mjv_updateScene(
        model, data, mujoco.MjvOption(), None, camera, mujoco.mjtCatBit.mjCAT_ALL.value, scene
    )
    kind = mujoco.mjtObj.mjOBJ_GEOM.value
    return {g.objid: g for g in scene.geoms[: scene.ngeom] if g.objtype == kind}


@pytest.mark.parametrize('task', ['kinds', 'panda_push', 'cartpole_swingup', 'panda_drawer'])
def test_the_same_geoms_are_drawn_in_the_same_colours_as_by_mujoco(task, kinds):
    model = kinds if task == 'kinds' else load_task(task).visual_model()
    theirs = drawn(model, model.qpos0)
    assert set(browser_scene.visible(model)) == {
        i for i, geom in theirs.items() if geom.rgba[3] > 0.0
    }
    for i in browser_scene.visible(model):
        material = model.geom_matid[i]
        if material < 0 or (model.mat_texid[material] < 0).all():  # else a picture is upon it
            np.testing.assert_allclose(
                browser_scene.geom_color(model, i), theirs[i].rgba, atol=1e-6
            )  # float32


@pytest.mark.parametrize('task', ['kinds', 'panda_push', 'fr3_follow'])
def test_meshes_on_moved_bodies_lie_where_mujoco_has_the_geoms(task, kinds, rng, server):
    if task == 'kinds':
        model, scene = kinds, None
    else:
        scene = load_task(task)
        model = scene.visual_model()
    data = mujoco.MjData(model)
    qpos = model.qpos0 + rng.uniform(-0.3, 0.3, model.nq)
    data.qpos[:] = qpos
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_kinematics(model, data)
    found = browser_scene.scene_meshes(model)
    assert len(found) == len(browser_scene.visible(model))
    for mesh, geom in zip(found, browser_scene.visible(model), strict=True):
        turn, place = data.xmat[mesh.body].reshape(3, 3), data.xpos[mesh.body]
        here = mesh.vertices @ turn.T + place
        own = np.asarray(browser_scene.geom_surface(model, geom).vertices)
        there = own @ data.geom_xmat[geom].reshape(3, 3).T + data.geom_xpos[geom]
        np.testing.assert_allclose(here, there, atol=1e-9)  # rounding: products of rotations
    if scene is None:
        return
    world = BrowserScene(server, scene, None)
    world.show(data.qpos, data.mocap_quat)
    nodes = {n.name: n for n in server.scene.added if n.what == 'add_frame'}
    for body in {mesh.body for mesh in found}:
        node = nodes[f'/bodies/{body}']
        np.testing.assert_array_equal(node.position, data.xpos[body])
        np.testing.assert_array_equal(node.wxyz, data.xquat[body])


def test_meshes_are_as_large_as_their_geoms(kinds):
    for geom in browser_scene.visible(kinds):
        if kinds.geom_type[geom] == mujoco.mjtGeom.mjGEOM_PLANE:
            continue
        low, high = browser_scene.geom_surface(kinds, geom).bounds
        middle, half = np.split(kinds.geom_aabb[geom], 2)
        np.testing.assert_allclose(0.5 * (low + high), middle, atol=1e-6)  # float32
        np.testing.assert_allclose(0.5 * (high - low), half, rtol=ROUND)


@pytest.mark.parametrize('name', ['panda_push', 'cartpole_swingup'])
def test_texts_of_neighbouring_histograms_do_not_overlap_at_first(name, server):
    task = load_task(name)
    start, scene = task.start(), BrowserScene(server, task, None)
    scene.show(start.qpos, scene.data.mocap_quat)
    view = scene.initial_view(task)
    position, at, fovy = view
    low, high = task.prior.range
    belief = Belief(np.linspace(low, high, 5), np.log(np.full(5, 0.2)))
    shapes = TaskShapes(task, view.legible_size()).belief(DisplayState(0.0, start, {}, belief))
    first, second = (s for s in shapes if isinstance(s, Label) and s.name == 'values')
    height = 2.0 * np.linalg.norm(at - position) * np.tan(0.5 * fovy)
    apart = 800.0 * np.linalg.norm(second.position - first.position) / height  # px
    letters = max(len(line) for label in (first, second) for line in label.text.split('\n'))
    em = 12.0 * shape_nodes._FONT_SCALE
    assert apart > 0.55 * em * letters  # mean width of letters and digits of Arial
