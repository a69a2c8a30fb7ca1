"""Build of the ROS 2 package `emppi_ros`: by colcon (ament_python) and by pip alike."""

from pathlib import Path
import re

from setuptools import find_packages, setup

NAME = 'emppi_ros'
ROOT = Path(__file__).resolve().parent
TASKS = ['gymnasium', 'gymnasium-robotics']  # models of the simulated tasks
VIEW = ['trimesh>=4.4', 'viser>=1.1,<2']  # the live page: another major version is another one
VERSION = re.search(r"__version__ = '(.+)'", (ROOT / NAME / '__init__.py').read_text())[1]


def share(folder: str) -> list[tuple[str, list[str]]]:
    """Return data_files entries that put a folder and all below it under share/emppi_ros."""
    folders: dict[str, list[str]] = {}
    for path in sorted((ROOT / folder).rglob('*.*')):
        if path.is_file() and '__pycache__' not in path.parts:
            place = path.parent.relative_to(ROOT).as_posix()
            folders.setdefault(f'share/{NAME}/{place}', []).append(
                path.relative_to(ROOT).as_posix()
            )
    return sorted(folders.items())


setup(
    name=NAME,
    version=VERSION,
    description='Ensemble model predictive path integral control with an online belief, for ROS 2',
    long_description=(ROOT / 'README.md').read_text() if (ROOT / 'README.md').exists() else '',
    long_description_content_type='text/markdown',
    license='Apache-2.0',
    packages=find_packages(include=[NAME, f'{NAME}.*']),
    package_data={NAME: ['py.typed', 'model/assets/**/*']},
    data_files=[
        ('share/ament_index/resource_index/packages', [f'resource/{NAME}']),
        (f'share/{NAME}', ['package.xml']),
        *share('config'),
        *share('launch'),
    ],
    python_requires='>=3.11',  # MuJoCo 4
    install_requires=[
        'imageio[ffmpeg]',  # MP4 and GIF, with an encoder inside the wheel
        'matplotlib>=3.7',  # legends outside of the axes
        'mcap-ros2-support>=0.5',  # bags, read and written without ROS
        'mujoco>=4.0',
        'numpy',
        'pillow',  # text in pictures; matplotlib has it, too
        'pyyaml',
        'ruckig',  # jerk-limited motion
        'scipy>=1.9',  # whose parts are loaded when first named
        'tqdm',
        'transforms3d>=0.4',  # NumPy 2 needs 0.4.2
    ],
    extras_require={
        # `emppi bench paper` and `belief` on all cores, and on a Dask cluster; a Kalman filter
        'bench': ['filterpy>=2', 'joblib>=1.4'],
        'cluster': ['dask', 'distributed'],
        # `make docs`
        'docs': ['furo', 'myst-parser>=4', 'sphinx>=8.2'],
        # `simulation: engine: drake`
        'drake': ['drake>=1.51'],
        # backend `franky`: libfranka inside, for an FR3
        'franka': ['franky-control>=2.0'],
        # recordings in Parquet, and bags in SQLite; `emppi bench video`: what to compare
        # with; `emppi bench video`: the same, and the similarity of images
        'identify': [
            'cma>=4',
            'emcee>=3.1',
            'pyarrow',
            'rosbags>=0.10',
            'scikit-image>=0.25',
        ],
        'tasks': TASKS,
        'view': VIEW,
        # `planner: device: cuda`: MuJoCo on a GPU
        'warp': ['mujoco-warp>=4.0'],
        # rclpy and its messages; not needed where a ROS 2 installation is sourced
        'ros': [
            'ros-kilted-common-interfaces',
            'ros-kilted-rclpy',
            'ros-kilted-rmw-fastrtps-cpp',
        ],
        'test': [
            'cma>=4',
            'colcon-common-extensions',
            'dask',
            'distributed',
            'emcee>=3.1',
            'filterpy>=2',
            'hypothesis',
            'joblib>=1.4',
            'mypy>=1.18',
            'playwright',  # drives a browser, if there is one
            'pyarrow',
            'pytest',
            'pytest-timeout',
            'pytest-xdist',
            'rosbags>=0.10',  # reads bags as well: they are no dialect of ours
            'ruff',
            'scikit-image>=0.25',
            'setuptools>=70.1,<80',  # `setup.py install` for colcon, bdist_wheel for pip
            'types-PyYAML',
            *TASKS,
            *VIEW,
        ],
    },
    # Executables are emppi_<node>, in lib/emppi_ros (`ros2 run emppi_ros emppi_planner`, and
    # executable='emppi_planner' in launch files) after colcon, and beside `emppi` on the PATH
    # after pip, where a command called `planner` would be too much to claim. Without either,
    # `python -m emppi_ros.nodes planner` starts the same.
    entry_points={
        'console_scripts': [
            'emppi = emppi_ros.cli:main',
            *(
                f'emppi_{node} = emppi_ros.nodes.__main__:{node}'
                for node in (
                    'planner',
                    'belief',
                    'bridge',
                    'simulator',
                    'markers',
                    'task_server',
                    'depth_camera',
                    'tracker',
                    'articulation',
                )  # fmt: skip
            ),
        ]
    },
    zip_safe=False,
)
