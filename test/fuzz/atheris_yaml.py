"""
Coverage-guided fuzzing of YAML texts, where atheris is installed: it is no dependency.

python test/fuzz/atheris_yaml.py CORPUS -max_total_time=300
"""

import sys

import atheris

with atheris.instrument_imports(include=['emppi_ros', 'yaml']):
    from emppi_ros.core import config
    from emppi_ros.core.errors import EmppiError
    from emppi_ros.robots.robot import Robot
    from emppi_ros.tasks.schema import TaskFile


def one(data: bytes) -> None:
    """Read a text as a robot and as a task; only a named error may come of it."""
    text = data.decode('utf-8', 'replace')
    for kind in (Robot, TaskFile):
        try:
            config.build(kind, config.parse(text, 'case'), 'case')
        except EmppiError as error:
            assert str(error).startswith('case: ')


if __name__ == '__main__':
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
