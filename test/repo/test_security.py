"""Nothing here runs what it reads, and no secret lies about."""

import ast
from pathlib import Path
import re

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted([*(ROOT / 'emppi_ros').rglob('*.py'), *(ROOT / 'launch').rglob('*.py')])
FORBIDDEN_CALLS = {'eval', 'exec', 'compile', '__import__'}
FORBIDDEN_MODULES = {'pickle', 'marshal', 'shelve', 'dill', 'joblib', 'cloudpickle', 'distributed'}
UNSAFE = {
    ('yaml', 'load'), ('yaml', 'load_all'), ('yaml', 'full_load'), ('yaml', 'unsafe_load'),
    ('os', 'system'), ('os', 'popen'), ('tempfile', 'mktemp'), ('subprocess', 'getoutput'),
    ('mujoco', 'mj_loadPluginLibrary'), ('mujoco', 'mj_loadAllPluginLibraries'),
}  # fmt: skip
# joblib.load runs what it reads. Parallel exchanges pickles only with processes that it started
# itself, or, through a Client, with a cluster that the user named. So a file each may import
# these names, and no other of their modules.
ALLOWED = {
    'emppi_ros/parallel/pool.py': {'joblib.Parallel', 'joblib.delayed'},
    'emppi_ros/parallel/cluster.py': {'distributed.Client', 'distributed.as_completed'},
}
SECRETS = re.compile(r'BEGIN [A-Z ]*PRIVATE KEY|(password|token|secret)\s*[:=]\s*[\'"][^\'"]+')


def sins(source: str, allowed: frozenset[str] | set[str] = frozenset()) -> list[str]:
    """Return what in a Python text runs what it reads, but for the imports that are allowed."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f'{node.module}.{alias.name}' for alias in node.names]
        forbidden = [n for n in names if n.split('.')[0] in FORBIDDEN_MODULES]
        found += [n for n in forbidden if n not in allowed]
        found += [n for n in names if tuple(n.split('.')) in UNSAFE]
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in FORBIDDEN_CALLS:
            found.append(called.id)
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            found += [called.attr] * ((called.value.id, called.attr) in UNSAFE)
        for word in node.keywords:
            wanted = {'allow_pickle': True, 'shell': True}.get(word.arg)
            found += [word.arg] * bool(wanted and ast.unparse(word.value) != 'False')
    return found


def test_no_code_comes_from_data():
    names = {str(path.relative_to(ROOT)): path for path in FILES}
    found = {n: sins(p.read_text(), ALLOWED.get(n, frozenset())) for n, p in names.items()}
    assert not {name: wrong for name, wrong in found.items() if wrong}


@pytest.mark.parametrize(
    'text',
    [
        'eval("1")', 'exec(x)', '__import__("os")', 'import pickle', 'from pickle import loads',
        'import dill as d', 'yaml.load(t, Loader=L)', 'from yaml import unsafe_load',
        'os.system("x")', 'np.load(f, allow_pickle=True)', 'subprocess.run(x, shell=True)',
    ],
)  # fmt: skip
def test_the_test_finds_what_it_looks_for(text):
    assert sins(text)


@pytest.mark.parametrize(
    'text', ['import joblib', 'from joblib import load', 'from joblib import Parallel, load']
)
def test_a_file_that_may_import_some_of_a_module_may_import_nothing_else_of_it(text):
    allowed = ALLOWED['emppi_ros/parallel/pool.py']
    assert sins(text, allowed)
    assert not sins('from joblib import Parallel, delayed', allowed)
    assert sins('from joblib import Parallel, delayed')


def test_no_secret_is_in_the_repository():
    kinds = ('.py', '.yaml', '.md', '.rst', '.toml', '.cfg', '.xml', '.txt')
    folders = ('emppi_ros', 'config', 'launch', 'docs', '.ci')
    files = [p for f in folders for p in (ROOT / f).rglob('*') if p.suffix in kinds]
    assert not [p for p in files if SECRETS.search(p.read_text())]
    ours = [p for p in ROOT.iterdir() if not p.name.startswith('.venv')]  # others' are theirs
    assert not [p for p in ours if p.suffix == '.pem' or [*p.rglob('*.pem')]]
