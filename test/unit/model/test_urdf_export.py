"""A scene as URDF has the kinematics of the MJCF, by MuJoCo's own reading of both."""

import xml.etree.ElementTree as ET

import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from emppi_ros.core import paths
from emppi_ros.core.pose import Pose
from emppi_ros.model.link_tree import FREE, HINGE, SLIDE, link_poses, link_tree
from emppi_ros.model.urdf_export import UrdfLimits, looks, to_urdf
from emppi_ros.tasks.task import load_task

TASKS = sorted(path.stem for path in (paths.share() / 'config' / 'tasks').glob('*.yaml'))
TOLERANCE = 1e-6  # m, and components of a unit quaternion; MuJoCo's parser keeps float32 nowhere
SCENE = """
<mujoco>
  <worldbody>
    <geom type="plane" size="1 2 0.1"/>
    <body name="base" pos="0 0 0">
      <geom type="box" size="0.1 0.2 0.3"/>
      <body name="anchored" pos="0.1 0.2 0.3" quat="0.5 0.5 -0.5 0.5">
        <joint name="slide" type="slide" axis="1 2 3" pos="0.5 0 0" ref="0.2"/>
        <joint name="far" pos="0.3 -0.2 0.1" axis="0 1 1" ref="0.7" range="-60 40"/>
        <joint name="near" axis="1 0 0"/>
        <geom type="capsule" size="0.02 0.1"/>
        <body name="tip" pos="0 0.1 0" euler="0 90 0">
          <joint name="ball" type="ball" pos="0.1 0 0"/>
          <geom type="ellipsoid" size="0.01 0.03 0.02" pos="0.1 0 0" euler="10 20 30"/>
          <body><geom type="cylinder" size="0.02 0.1" euler="0 90 0"/></body>
        </body>
      </body>
    </body>
    <body name="thing" pos="1 1 1">
      <freejoint name="floats"/><geom type="sphere" size="0.1"/>
    </body>
  </worldbody>
</mujoco>
"""


def compiled(urdf):
    """
    Return MuJoCo's reading of a URDF with all links, without its shapes.

    MuJoCo reads no floating joint between links: they are fixed here.
    """
    root = ET.fromstring(urdf)
    for link in root.findall('link'):
        for visual in link.findall('visual'):
            link.remove(visual)
    for joint in root.findall("joint[@type='floating']"):
        joint.set('type', 'fixed')
    extension = ET.SubElement(root, 'mujoco')
    # inserted links have no mass, and displays need none
    ET.SubElement(extension, 'compiler', fusestatic='false', boundmass='1', boundinertia='1')
    return mujoco.MjModel.from_xml_string(ET.tostring(root, encoding='unicode'))


def random_positions(model, rng):
    """Return a configuration within a turn and a metre of the start, with valid quaternions."""
    qpos = model.qpos0 + rng.uniform(-1.0, 1.0, model.nq)
    mujoco.mj_normalizeQuat(model, qpos)
    return qpos


def same_configuration(model, links, qpos, read):
    """Return a configuration of a model of the URDF that has the same joint positions."""
    out = read.qpos0.copy()
    for link in links:
        if link.kind in (HINGE, SLIDE):
            name = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, link.joint)
            place = read.joint(name or f'{link.name}_joint').qposadr[0]
            out[place] = qpos[model.jnt_qposadr[link.joint]]
    return out


def world_poses(links, poses):
    """Return the pose of each link in the root."""
    found = []
    for link, pose in zip(links, poses, strict=True):
        found.append(pose if link.parent < 0 else found[link.parent] @ pose)
    return found


def assert_same_pose(pose, position, quaternion):
    np.testing.assert_allclose(pose.position, position, atol=TOLERANCE)
    assert abs(np.dot(pose.quaternion, quaternion)) > 1.0 - TOLERANCE


def check_kinematics(model, links, urdf):
    """Compare the poses of all links in 20 random configurations."""
    read, rng = compiled(urdf), np.random.default_rng(0)
    truth, again = mujoco.MjData(model), mujoco.MjData(read)
    for _ in range(20):
        truth.qpos[:] = random_positions(model, rng)
        mujoco.mj_kinematics(model, truth)
        again.qpos[:] = same_configuration(model, links, truth.qpos, read)
        mujoco.mj_kinematics(read, again)
        poses = link_poses(model, links, truth.qpos)
        for link, pose, placed in zip(links, poses, world_poses(links, poses), strict=True):
            for body in link.bodies:
                assert_same_pose(placed, truth.xpos[body], truth.xquat[body])
            if link.parent < 0 or link.kind == FREE:
                continue
            body, parent = read.body(link.name).id, read.body(links[link.parent].name).id
            above = Pose(again.xpos[parent], again.xquat[parent])
            assert_same_pose(above @ pose, again.xpos[body], again.xquat[body])


@pytest.mark.parametrize('name', TASKS)
def test_links_of_a_urdf_are_where_the_bodies_of_the_scene_are(name):
    model = load_task(name).model
    links = link_tree(model, 'root')
    assert sorted(body for link in links for body in link.bodies) == list(range(model.nbody))
    check_kinematics(model, links, to_urdf(model, links, name))


def test_anchors_references_and_several_joints_a_body_keep_their_meaning():
    model = mujoco.MjModel.from_xml_string(SCENE)
    links = link_tree(model, 'root', prefix='left/')
    check_kinematics(model, links, to_urdf(model, links, 'scene'))


def test_measured_bodies_are_where_they_are_measured():
    task = load_task('panda_drawer')
    (handle,) = [item.body for item in task.jointed.values()]
    links = link_tree(task.model, task.robot.frame, measured=[handle])
    pose = Pose(np.array([0.3, 0.2, 0.1]), np.array([0.5, 0.5, -0.5, 0.5]))
    (index,) = [i for i, link in enumerate(links) if handle in link.bodies]
    assert links[index].kind == FREE and links[index].parent == 0
    poses = link_poses(task.model, links, task.start().qpos)
    poses[index] = pose
    assert_same_pose(world_poses(links, poses)[index], *pose)


def test_the_body_in_the_robots_frame_is_that_frame_and_other_names_have_the_prefix():
    task = load_task('panda_push')
    root, *others = link_tree(task.model, 'panda_link0', prefix='left/')
    assert root.name == 'panda_link0' and len(root.bodies) == 2
    assert all(link.name.startswith('left/') for link in others)
    assert [link.name for link in others][-1] == 'left/block'
    moved = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body name="base" pos="1 0 0"/></worldbody></mujoco>'
    )
    assert [link.name for link in link_tree(moved, 'base')] == ['base', 'base_body']


def test_names_of_links_and_joints_are_unique():
    for name in TASKS:
        model = load_task(name).model
        root = ET.fromstring(to_urdf(model, link_tree(model, 'root'), name))
        for kind in ('link', 'joint'):
            names = [item.get('name') for item in root.findall(kind)]
            assert len(set(names)) == len(names), name


@pytest.mark.parametrize('name', TASKS)
def test_a_link_has_one_colour_as_rviz_shows_it(name):
    model = load_task(name).visual_model()
    root = ET.fromstring(to_urdf(model, link_tree(model, 'root'), name))
    for link in root.findall('link'):
        assert len({color.get('rgba') for color in link.iter('color')}) <= 1, link.get('name')


def test_limits_are_those_given_else_those_of_the_model():
    model = mujoco.MjModel.from_xml_string(SCENE)
    links = link_tree(model, 'root')
    root = ET.fromstring(to_urdf(model, links, 's', {'near': UrdfLimits(-1.0, 2.0, 3.0, 4.0)}))
    joints = {item.get('name'): item for item in root.findall('joint')}
    near = joints['near'].find('limit').attrib
    assert near == {'lower': '-1.0', 'upper': '2.0', 'velocity': '3.0', 'effort': '4.0'}
    far = joints['far'].find('limit')
    np.testing.assert_allclose(
        [float(far.get('lower')), float(far.get('upper'))], np.deg2rad([-60.0, 40.0])
    )
    unlimited = ET.fromstring(to_urdf(model, links, 's'))
    assert unlimited.find("joint[@name='near']").get('type') == 'continuous'


@pytest.mark.parametrize('name', ['panda_push', 'fr3_pickup', 'cartpole_swingup'])
def test_boxes_spheres_and_cylinders_are_where_the_scene_has_them(name):
    model = load_task(name).visual_model()
    links = link_tree(model, 'root')
    text = to_urdf(model, links, name).replace('type="floating"', 'type="fixed"')
    extension = '<mujoco><compiler fusestatic="false" discardvisual="false"/></mujoco>'
    read = mujoco.MjModel.from_xml_string(text.replace('</robot>', f'{extension}</robot>'))
    for kind in (mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CYLINDER):
        shown = [g for g in np.flatnonzero(model.geom_type == kind) if model.geom_group[g] < 3]
        for geom in shown:
            body = model.geom_bodyid[geom]
            (link,) = [link for link in links if body in link.bodies]
            (place,) = [name for name, geoms in looks(model, link).items() if geom in geoms]
            mine = read.geom_bodyid == read.body(place).id
            near = np.abs(read.geom_pos - model.geom_pos[geom]).max(axis=1) < TOLERANCE
            turned = np.abs(read.geom_quat @ model.geom_quat[geom]) > 1.0 - TOLERANCE
            sized = np.abs(read.geom_size - model.geom_size[geom]).max(axis=1) < TOLERANCE
            assert (mine & near & turned & sized & (read.geom_type == kind)).any()


def test_meshes_are_where_the_scene_has_them():
    model = load_task('adroit_door').visual_model()
    links = link_tree(model, 'root')
    root = ET.fromstring(to_urdf(model, links, 'door'))
    for link in links[1:]:
        shown = [
            geom
            for body in link.bodies
            for geom in np.flatnonzero(model.geom_bodyid == body)
            if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH and model.geom_group[geom] < 3
        ]
        visuals = [
            visual
            for visual in root.find(f"link[@name='{link.name}']").findall('visual')
            if visual.find('geometry/mesh') is not None
        ]
        assert len(visuals) == len(shown)
        for geom, visual in zip(shown, visuals, strict=True):
            assert_mesh(model, geom, visual)


def assert_mesh(model, geom, visual):
    """Compare the centre of the vertices, by the file and the URDF, and by the compiled model."""
    import trimesh

    mesh = model.geom_dataid[geom]
    first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, model.geom_quat[geom])
    vertices = model.mesh_vert[first : first + count] @ matrix.reshape(3, 3).T
    expected = (vertices + model.geom_pos[geom]).min(axis=0)
    item, origin = visual.find('geometry/mesh'), visual.find('origin')
    place, angles = (np.array(origin.get(key).split(), float) for key in ('xyz', 'rpy'))
    scale = np.array(item.get('scale').split(), float)
    loaded = trimesh.load(item.get('filename').removeprefix('file://')).vertices * scale
    found = Rotation.from_euler('xyz', angles).apply(loaded) + place
    # vertices in float32, at most half a metre away
    np.testing.assert_allclose(found.min(axis=0), expected, atol=1e-6)
