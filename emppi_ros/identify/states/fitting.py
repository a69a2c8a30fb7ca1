"""From recorded motions to what explains all of them: each must be explained alone first."""

from collections.abc import Sequence
from typing import NamedTuple

from emppi_ros.core.errors import IdentificationError
from emppi_ros.identify.common import prior_output
from emppi_ros.identify.common.motion import Motion, join
from emppi_ros.identify.common.plant import Plant
from emppi_ros.identify.common.recordings import named_errors
from emppi_ros.identify.states import checks
from emppi_ros.identify.states.estimate import Estimate, estimate
from emppi_ros.identify.states.solver import Progress, Settings


class Found(NamedTuple):
    """What explains all motions."""

    motion: Motion  # all of them
    result: Estimate
    notes: list[str]  # where they do not agree


def find(
    plant: Plant, motions: Sequence[Motion], names: Sequence[str], settings: Settings,
    progress: Progress = lambda _: None,
) -> Found:  # fmt: skip
    """
    Return the parameters that explain all motions, one recording each.

    `names` are those of the recordings, for errors: each is explained alone, too, so that what is
    wrong with one has its name. IdentificationError where one is not explained, or nothing shows.
    """
    alone = []
    for name, motion in zip(names, motions, strict=True):
        with named_errors(name):
            one = estimate(plant, motion, settings, progress)
            checks.moves(plant, motion, one)
            alone.append(one)
    whole, result, notes = motions[0], alone[0], list[str]()
    if len(motions) > 1:
        whole = join(motions)
        result = estimate(plant, whole, settings, progress)
        notes = checks.disagreement(plant, names, alone, result)
        try:
            checks.moves(plant, whole, result)
        except IdentificationError as error:
            each = f'each recording alone is explained, but not all together: {error}'
            raise IdentificationError('; '.join([*notes, each])) from None
    prior_output.excited(result.knowledge)
    return Found(whole, result, notes)
