"""From tracked poses to joints, and from a depth video to a task with a prior of its joints."""

from collections.abc import Callable, Sequence
from pathlib import Path

from emppi_ros.articulation import prior, topology, tracks
from emppi_ros.articulation.topology import KinematicTree
from emppi_ros.articulation.tracks import Noise, Tracks
from emppi_ros.core.errors import ConfigError
from emppi_ros.pipeline import video_tracks
from emppi_ros.pipeline.video_tracks import VideoTracks
from emppi_ros.priors import prior_file
from emppi_ros.priors.prior_file import hash_file
from emppi_ros.tasks.task import Task, load_task
from emppi_ros.tracking import parts as parts_files
from emppi_ros.tracking.fitting import TrackerConfig

_NOISE = Noise()


def articulate(
    given: Tracks | VideoTracks | Path | str | Sequence[Path],
    *,
    noise: Noise = _NOISE,
    seed: int = 0,
    progress: Callable[[float], None] = lambda _: None,
) -> KinematicTree:
    """
    Return the most probable kinematic tree of tracked parts, with the joints between them.

    IdentificationError if tracks are too short or names are not unique.

    Parameters
    ----------
    given : Tracks, VideoTracks, or path
        Poses over time, a table of them, or bags.
    noise : Noise
        Standard deviations of poses in files without covariances.
    seed : int
        Of the candidates.
    progress : function
        Called with the number of pairs of parts that were compared.

    """
    if isinstance(given, VideoTracks):
        given = given.tracks
    elif not isinstance(given, Tracks):
        files = [Path(given)] if isinstance(given, str | Path) else list(given)
        given = tracks.read(files, noise)
        tracks.check(given, ', '.join(map(str, files)))
    return topology.infer(given, seed, progress=progress)


def video_to_task(video: Path | str, task: Task | str, out: Path | str, *, seed: int = 0) -> Task:
    """
    Return a task whose belief starts from the joints that a depth video shows.

    The tracked objects of the task are tracked in the video, from where they start in the task.
    IdentificationError if the joints of its objects are not decided.

    Parameters
    ----------
    video : path
        NPZ file or bag.
    task : Task or str
        The task, or its name or file.
    out : path
        Prior file to write, of the axes and places of the joints.
    seed : int
        Of the candidates and of the samples of the prior.

    """
    task = load_task(task) if isinstance(task, str) else task
    path = Path(video)
    if path.is_dir():
        raise ConfigError(f'{path}: expected one file, an NPZ file or a bag')
    settings = TrackerConfig(noise_sd_per_m=task.simulation.depth_camera.noise_sd_per_m)
    parts = parts_files.of_task(task, settings)
    tree = articulate(video_tracks.track(video_tracks.read_video(path, parts)), seed=seed)
    prior_file.write(Path(out), prior.make(tree, task, [hash_file(path)], seed))
    return task.with_prior(str(out))
