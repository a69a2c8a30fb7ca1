"""Scenes that reach out of their folder, or ask for too much, never get to MuJoCo."""

import os
from pathlib import Path
import struct
import zlib

import mujoco
import pytest

from emppi_ros.core import paths
from emppi_ros.core.errors import SceneError
from emppi_ros.model import mjcf_security, scene

GOOD = '<mujoco><worldbody><body><joint/><geom name="g" size="1"/></body>{}</worldbody></mujoco>'


def wrap(*parts: str) -> str:
    return f'<mujoco>{"".join(parts)}</mujoco>'


def asset(text: str, compiler: str = '') -> str:
    return wrap(f'<compiler {compiler}/><asset>{text}</asset>')


def nested(count: int, depth: int) -> str:
    inner = '<geom size="1"/>'
    for _ in range(depth):
        inner = f'<replicate count="{count}" offset="1 0 0">{inner}</replicate>'
    return wrap(f'<worldbody>{inner}</worldbody>')


CUBES = ' '.join(['fileup', 'filedown', 'fileleft', 'fileright', 'filefront', 'fileback'])
REACHING = {
    'include absolute': wrap('<include file="/etc/hostname.xml"/>'),
    'include parent': wrap('<include file="../secret.xml"/>'),
    'include parent later': wrap('<include file="a/../../secret.xml"/>'),
    'include by reference': wrap('<include file="&#46;&#46;/secret.xml"/>'),
    'include link': wrap('<include file="link.xml"/>'),
    'include linked folder': wrap('<include file="door/secret.xml"/>'),
    'include nested': wrap('<include file="inner.xml"/>'),
    'include no xml': wrap('<include file="notes.txt"/>'),
    'include device': wrap('<include file="/dev/zero"/>'),
    'include pipe': wrap('<include file="pipe.xml"/>'),
    'include folder': wrap('<include file="folder.xml"/>'),
    'include scheme': wrap('<include file="http://example.org/a.xml"/>'),
    'include backslash': wrap('<include file="..\\secret.xml"/>'),
    'include tab': wrap('<include file="a&#9;b.xml"/>'),
    'include prefixed': '<mujoco xmlns:x="y"><x:include x:file="../secret.xml"/></mujoco>',
    'model absolute': asset('<model name="m" file="/tmp/m.xml"/>'),
    'model parent': asset('<model name="m" file="../secret.xml"/>'),
    'mesh absolute': asset('<mesh file="/tmp/a.stl"/>'),
    'mesh parent': asset('<mesh file="../a.stl"/>'),
    'mesh link': asset('<mesh file="link.stl"/>'),
    'mesh stripped link': asset('<mesh file="nowhere/link.stl"/>', 'strippath="true"'),
    'mesh secret': asset('<mesh file="secret.pem"/>'),
    'mesh folder': asset('<mesh file="a.stl"/>', 'meshdir="/tmp"'),
    'mesh folder parent': asset('<mesh file="a.stl"/>', 'meshdir=".."'),
    'mesh folder linked': asset('<mesh file="a.stl"/>', 'meshdir="door"'),
    'asset folder': asset('<mesh file="a.stl"/>', 'assetdir="../.."'),
    'texture folder': asset('<texture file="a.png"/>', 'texturedir="/"'),
    'texture parent': asset('<texture type="2d" file="../a.png"/>'),
    **{f'cube {key}': asset(f'<texture type="cube" {key}="../a.png"/>') for key in CUBES.split()},
    'hfield parent': asset('<hfield name="h" file="../a.png" size="1 1 1 1"/>'),
    'skin parent': asset('<skin file="../a.skn"/>'),
    'flexcomp parent': wrap(
        '<worldbody><flexcomp name="f" type="mesh" file="../a.obj"/></worldbody>'
    ),
    'default texture': wrap('<default><mesh file="../a.stl"/></default>'),
}
GREEDY = {
    'plugin': wrap('<extension><plugin plugin="mujoco.elasticity.cable"/></extension>'),
    'plugin of body': wrap('<worldbody><body><plugin plugin="x"/></body></worldbody>'),
    'plugin by attribute': wrap('<sensor><user plugin="x"/></sensor>'),
    'doctype': '<!DOCTYPE mujoco SYSTEM "file:///etc/passwd"><mujoco/>',
    'entities': '<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><mujoco model="&b;"/>',
    'million geoms': nested(1_000_000, 1),
    'billion geoms': nested(1000, 3),
    'huge count': nested(10**30, 2),
    'count no number': nested('0x7fffffff', 1),
    'composite': wrap('<worldbody><composite type="cable" count="1000000 1 1"/></worldbody>'),
    'flexcomp': wrap(
        '<worldbody><flexcomp name="f" type="grid" count="999 999 999"/></worldbody>'
    ),
    'attached many': asset('<model name="m" file="many.xml"/>')[:-9]
    + f'<worldbody>{"".join(f"<attach model=$m$ prefix=${i}$/>" for i in range(99))}'.replace(
        '$', '"'
    )
    + '</worldbody></mujoco>',
    'attached attaches': asset('<model name="m" file="attaching.xml"/>'),
    'memory': wrap('<size memory="900G"/>'),
    'memory no size': wrap('<size memory="1 T"/>'),
    'stack': wrap('<size nstack="99999999999"/>'),
    'contacts': wrap('<size nconmax="2000000000"/>'),
    'user data': wrap('<size nuser_geom="2000000000"/>'),
    'keys': wrap('<size nkey="2000000000"/>'),
    'iterations': wrap('<option iterations="2000000000"/>'),
    'numeric': wrap('<custom><numeric name="n" size="2000000000"/></custom>'),
    'texture size': asset('<texture type="2d" builtin="flat" width="99999" height="99999"/>'),
    'hfield size': asset('<hfield name="h" nrow="99999" ncol="99999" size="1 1 1 1"/>'),
    'picture': asset('<texture type="2d" file="huge.png"/>'),
    'subdivision': asset('<mesh name="m" builtin="sphere" params="900"/>'),
    'sensor': wrap('<sensor><user dim="2000000000"/></sensor>'),
    'deep': wrap('<worldbody>' + '<body>' * 200 + '</body>' * 200 + '</worldbody>'),
    'long': wrap(f'<!-- {"x" * mjcf_security.MAX_XML} -->'),
    'heavy': asset('<mesh file="heavy.stl"/><mesh name="b" file="heavy2.stl"/>'),
    'many files': asset(''.join(f'<mesh file="m{i}.stl"/>' for i in range(1001))),
    'not a number': GOOD.format('<geom size="nan"/>'),
    'infinity': GOOD.format('<body pos="0 -Infinity 0"/>'),
    'not a number with a payload': GOOD.format('<body pos="0 nan(1) 0"/>'),
    'unclosed': '<mujoco>',
    'empty': '',
    'latin': '<?xml version="1.0" encoding="latin-1"?><mujoco model="\udce4"/>',
    'wide': '\ufeff<mujoco>'.encode('utf-16').decode('latin-1'),
}


def picture(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes that claims a size."""

    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', check)

    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IEND', b'')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of a scene, with secrets outside of it and traps inside."""
    inside, outside = tmp_path / 'scenes', tmp_path / 'private'
    inside.mkdir()
    outside.mkdir()
    for place in (tmp_path, outside):
        (place / 'secret.xml').write_text(GOOD.format(''))
        (place / 'a.stl').write_bytes(b'solid')
    (inside / 'link.xml').symlink_to(outside / 'secret.xml')
    (inside / 'link.stl').symlink_to(outside / 'a.stl')
    (inside / 'door').symlink_to(outside)
    (inside / 'inner.xml').write_text('<mujoco><include file="../secret.xml"/></mujoco>')
    (inside / 'many.xml').write_text(nested(999, 1))
    (inside / 'attaching.xml').write_text(
        '<mujoco><worldbody><attach model="m" prefix="x"/></worldbody></mujoco>'
    )
    (inside / 'folder.xml').mkdir()
    os.mkfifo(inside / 'pipe.xml')
    (inside / 'huge.png').write_bytes(picture(60000, 60000))
    for name in ('heavy.stl', 'heavy2.stl'):
        with (inside / name).open('wb') as file:
            file.truncate(30 << 20)
    return inside


def write(folder: Path, text: str) -> Path:
    path = folder / 'scene.xml'
    path.write_bytes(text.encode('utf-8', 'surrogateescape'))
    return path


@pytest.mark.parametrize('name', REACHING)
def test_a_scene_that_reaches_out_is_refused_by_name(name, folder, monkeypatch):
    monkeypatch.setattr(mujoco.MjSpec, 'from_file', None)  # it never gets so far
    with pytest.raises(SceneError, match=r'scene.xml: .*(outside of|not a .* file|not end in)'):
        scene.load_scene(write(folder, REACHING[name]))


@pytest.mark.parametrize('name', GREEDY)
def test_a_scene_that_asks_for_too_much_is_refused_by_name(name, folder, monkeypatch):
    monkeypatch.setattr(mujoco.MjSpec, 'from_file', None)
    with pytest.raises(
        SceneError, match=r'scene.xml: .*(at most|more than|not |found|attaches|has)'
    ):
        scene.load_scene(write(folder, GREEDY[name]))


def test_a_scene_has_the_name_of_one(folder):
    (folder / 'passwd').write_text(GOOD)
    with pytest.raises(SceneError, match="'passwd' does not end in one of .xml"):
        scene.load_scene(folder / 'passwd')


def test_a_model_with_more_than_can_be_planned_is_refused(folder, monkeypatch):
    monkeypatch.setattr(scene, 'MAX_SIZE', 1)
    with pytest.raises(SceneError, match='2 bodies, 1 geoms and 1 degrees of freedom; at most 1'):
        scene.load_scene(write(folder, GOOD.format('')))


def test_what_lies_inside_is_read(folder):
    (folder / 'parts').mkdir()
    (folder / 'parts' / 'arm.xml').write_text('<mujocoinclude><geom size="1"/></mujocoinclude>')
    path = write(folder, GOOD.format('<body><include file="parts/arm.xml"/></body>'))
    assert scene.load_scene(path).ngeom == 2
    assert scene.load_scene(Path(os.path.relpath(path))).ngeom == 2


def test_a_root_may_be_named_for_models_of_other_packages(tmp_path):
    """Such packages keep meshes in a folder beside that of the XML."""
    (tmp_path / 'hand').mkdir()
    (tmp_path / 'meshes').mkdir()
    (tmp_path / 'meshes' / 'a.obj').write_text(
        'v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n'
    )
    text = '<asset><mesh name="a" file="a.obj"/></asset><worldbody><geom type="mesh" mesh="a"/>'
    path = tmp_path / 'hand' / 'hand.xml'
    path.write_text(f'<mujoco><compiler meshdir="../meshes"/>{text}</worldbody></mujoco>')
    assert scene.load_scene(path, root=tmp_path).nmesh == 1
    with pytest.raises(SceneError, match="'a.obj' resolves to .*outside of .*hand"):
        scene.load_scene(path)
    with pytest.raises(SceneError, match='outside of'):
        scene.load_scene(path, root=tmp_path / 'meshes')


def test_a_scene_may_be_a_link_as_in_an_install_of_links(folder, tmp_path):
    path = write(folder, GOOD.format(''))
    link = tmp_path / 'private' / 'linked.xml'
    link.symlink_to(path)
    assert scene.load_scene(link).nbody == 2


def test_every_attribute_of_mujoco_that_names_a_file_or_folder_is_known():
    words = set(mujoco.mj_printSchema(False, False).split())
    named = {w for w in words if 'file' in w or 'path' in w or w.endswith('dir')}
    others = {'strippath', 'dir'}  # a flag, and a light's direction
    assert named - others == {'file', 'meshdir', 'texturedir', 'assetdir', *CUBES.split()}


def test_shipped_scenes_are_within_every_bound():
    for path in paths.ASSETS.glob('*.xml'):
        mjcf_security.check(path)


@pytest.mark.parametrize('name', ['nanoscan3_visual', 'infinigen_scene', 'inflator', 'a nano'])
def test_names_may_begin_like_nan_and_inf(tmp_path, name):
    path = tmp_path / 'scene.xml'
    path.write_text(
        f'<mujoco model="{name}"><asset><mesh name="{name}" builtin="sphere" params="1"/></asset>'
        f'<worldbody><geom type="mesh" mesh="{name}"/></worldbody></mujoco>'
    )
    mjcf_security.check(path)
    mujoco.MjModel.from_xml_path(str(path))


@pytest.mark.parametrize('text', ['nanoscan', 'infx', '-nano', '0.1 nan1'])
def test_mujoco_refuses_numbers_that_only_begin_like_nan(text):
    """Therefore such words can only be names, which are allowed."""
    with pytest.raises(ValueError, match='bad format'):
        mujoco.MjModel.from_xml_string(
            f'<mujoco><worldbody><geom size="1" pos="0 0 {text}"/></worldbody></mujoco>'
        )
