"""From recorded motion to a posterior of physical parameters."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from emppi_ros.identification import methods
from emppi_ros.identification.common.plant import Plant
from emppi_ros.identification.methods import Identification, RunSettings
from emppi_ros.recordings.recordings import Recording, check_distinct, delay_inputs, read_recording
from emppi_ros.tasks.task import Task

_SETTINGS = RunSettings()


def identify(
    data: Sequence[Recording | Path | str],
    plant: Plant | Task | Path | str,
    *,
    method: str = 'states',
    options: Any = None,
    settings: RunSettings = _SETTINGS,
) -> Identification:
    """
    Return the posterior of unknown parameters from recorded motion.

    IdentificationError if the recordings do not fit the plant.

    Parameters
    ----------
    data : sequence of paths or Recordings
        Tables and bags, each a recording of its own.
    plant : Plant, Task, or path
        What was recorded: a task, or a YAML file with a scene and its parameters.
    method : str
        A name in `methods.METHODS`.
    options : object
        Options of the method; by default its own.
    settings : RunSettings
        Step of the model, delay of commands, random seed, and what else all methods have.

    """
    if isinstance(plant, Task):
        plant = Plant.from_task(plant)
    elif not isinstance(plant, Plant):
        plant = Plant.from_file(Path(plant))
    used = methods.load(method)
    options = used.options() if options is None else options
    used.check(options, plant, len(data), settings)
    recordings = [
        item
        if isinstance(item, Recording)
        else delay_inputs(read_recording([Path(item)]), settings.lag_s)
        for item in data
    ]
    check_distinct(recordings)
    plant.model.opt.timestep = (
        used.default_step(plant, recordings) if settings.step_s is None else settings.step_s
    )
    return used.identify(plant, recordings, options, settings)
