"""Named errors: every one says what was found and what would be right."""

from collections.abc import Iterable
import difflib

LONGEST = 2000  # characters of an error: it may quote a message of any size


class EmppiError(Exception):
    """Base of all errors that this package raises on purpose."""

    def __init__(self, text: str = '') -> None:
        """Keep the beginning of a long text, which says where and what."""
        super().__init__(text if len(text) <= LONGEST else text[:LONGEST] + ' [...]')


class ConfigError(EmppiError):
    """A YAML file or a setting is wrong; the message names file, key and what is allowed."""


class SceneError(EmppiError):
    """The MuJoCo model lacks something that was named; the message lists what exists."""


class ParameterError(EmppiError):
    """A physical parameter has an impossible value, or names of two sides do not match."""


class JointStateError(EmppiError):
    """A joint state lacks a joint, holds NaN, or cannot be used otherwise."""


class PoseError(EmppiError):
    """A tracked pose is in the wrong frame, not finite, or of an unknown object."""


class PlanError(EmppiError):
    """A plan cannot be executed: wrong joints, NaN, in the past, beyond limits."""


class ArmError(EmppiError):
    """The bridge may not be armed now; the message says why, and what to do first."""


class SwapError(EmppiError):
    """Another task, or another number in it, cannot be taken now; the message says why."""


class BeliefError(EmppiError):
    """A belief does not fit the task, or its message is malformed."""


class StaleInputError(EmppiError):
    """A measurement that is needed is missing or too old."""


class IdentificationError(EmppiError):
    """Recorded data say too little, or do not fit; the message says what to record instead."""


class BenchError(EmppiError):
    """A benchmark cannot go on: its rows cannot be read or kept, or who computed them is gone."""


class ClusterError(BenchError):
    """A cluster does not answer, is too small, or went away."""


class ReplayError(EmppiError):
    """A bag cannot be read, written or replayed; the message names file, topic and reason."""


class ViewError(EmppiError):
    """The live page cannot be served, or what it was asked for cannot be done; says why."""


class DegenerateWeightsError(EmppiError):
    """No sample carries weight (all minus infinity), or a weight is NaN."""


class AllDivergedError(DegenerateWeightsError):
    """Every rollout of a planning cycle diverged."""


def unknown(what: str, name: object, available: Iterable[str]) -> str:
    """Return a sentence that names what is unknown, what exists, and the closest match."""
    names = sorted(available)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f' (did you mean {close[0]!r}?)' if close else ''
    return f'unknown {what} {name!r}{hint}; available: {", ".join(names) or "none"}'
