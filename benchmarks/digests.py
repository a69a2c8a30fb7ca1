"""
What rows depend on: digests of code and of tasks.

Only what can change a result counts, so that a new comment does not outdate rows.
"""

import ast
import functools
import hashlib
import json
from pathlib import Path

from emppi_ros.core import config, paths
from emppi_ros.core.errors import BenchError

_DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef


@functools.cache  # cells share their code
def code_digest(*patterns: str, without: tuple[str, ...] = ()) -> str:
    """
    Return a digest of the files of patterns such as `benchmarks/dual/*.py`, from the checkout.

    Comments and docstrings of Python do not count, nor do files with the names `without`.
    BenchError if a pattern has no file.
    """
    checkout, files = paths.PACKAGE.parent, list[Path]()
    for pattern in patterns:
        matches = sorted(checkout.glob(pattern))
        if not matches:
            raise BenchError(
                f'{pattern}: no such file in {checkout}; a digest is of existing code'
            )
        files += [path for path in matches if path.name not in without]
    return hashlib.sha256('\n'.join(map(_code, files)).encode()).hexdigest()[:16]


def _code(path: Path) -> str:
    """Return the text of a file; of Python, the syntax tree without docstrings."""
    text = path.read_text(encoding='utf-8')
    if path.suffix != '.py':
        return text
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


@functools.cache  # many cells share a task
def task_digest(text: str) -> str:
    """
    Return the SHA-256 of a task's keys and values: comments and layout of the YAML do not count.

    Neither does its calibration, nor the folder of a scene or robot. The order of keys counts,
    since random numbers are drawn in the order of the parameters.
    """
    data = config.parse(text, 'task')
    data.pop('calibration', None)
    for key, value in data.items():
        if isinstance(value, str) and Path(value).is_absolute():
            data[key] = Path(value).name
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()
