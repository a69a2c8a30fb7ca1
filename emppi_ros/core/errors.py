"""Errors of this package. Messages state the value found and the values allowed."""

from collections.abc import Callable, Iterable, Sequence
import difflib
import importlib
from types import ModuleType
from typing import ParamSpec, TypeVar

P = ParamSpec('P')
T = TypeVar('T')

MAX_LENGTH = 2000  # characters: an error may quote input of any size


class EmppiError(Exception):
    """Base class of all errors that this package raises deliberately."""

    def __init__(self, text: str = '') -> None:
        """Truncate long messages; their beginning states what is wrong and where."""
        super().__init__(text if len(text) <= MAX_LENGTH else text[:MAX_LENGTH] + ' [...]')


class ConfigError(EmppiError):
    """A YAML file or option is invalid; the message names file, key and allowed values."""


class SceneError(EmppiError):
    """The MuJoCo model is invalid or lacks a named object; the message lists existing names."""


class ParameterError(EmppiError):
    """A physical parameter has an invalid value, or parameter names do not match."""


class JointStateError(EmppiError):
    """A joint state lacks a joint, contains NaN, or is otherwise unusable."""


class PoseError(EmppiError):
    """A tracked pose has the wrong frame, is not finite, or is of an unknown object."""


class PlanError(EmppiError):
    """A plan cannot be executed: wrong joints, NaN, in the past, or beyond limits."""


class ArmError(EmppiError):
    """The bridge cannot be armed; the message states why, and what to do first."""


class SwapError(EmppiError):
    """A task switch or parameter change is refused; the message states why."""


class BeliefError(EmppiError):
    """A belief does not match the task, or its message is malformed."""


class StaleInputError(EmppiError):
    """A required measurement is missing or too old."""


class IdentificationError(EmppiError):
    """Recorded data are insufficient or invalid; the message states what to record instead."""


class BenchError(EmppiError):
    """A benchmark cannot continue: its rows cannot be read or saved, or a worker is lost."""


class ClusterError(BenchError):
    """A cluster does not respond, lacks this package, or disconnected."""


class ReplayError(EmppiError):
    """A bag cannot be read, written or replayed; the message names file, topic and reason."""


class ViewError(EmppiError):
    """The web page cannot be served, or one of its requests cannot be fulfilled."""


class DegenerateWeightsError(EmppiError):
    """All log weights are minus infinity, or one is NaN."""


class AllDivergedError(DegenerateWeightsError):
    """Every rollout of a planning cycle diverged."""


def closest(name: object, names: Iterable[str]) -> str | None:
    """Return the name that is most like another one; None if none is."""
    return next(iter(difflib.get_close_matches(str(name), list(names), n=1)), None)


def unknown(what: str, name: object, available: Iterable[str]) -> str:
    """Return a message with the unknown name, its closest match and all available names."""
    names = sorted(available)
    close = closest(name, names)
    hint = f' (did you mean {close!r}?)' if close else ''
    return f'unknown {what} {name!r}{hint}; available: {", ".join(names) or "none"}'


def abbreviate(names: Sequence[str], most: int = 5) -> str:
    """Return names for a message: all, or the first ones and how many others there are."""
    more = f' and {len(names) - most} others' if len(names) > most else ''
    return ', '.join(names[:most]) + more


def prefix_errors(where: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, and prefix its ConfigError or SceneError with a location, `where`."""
    try:
        return function(*args, **kwargs)
    except (ConfigError, SceneError) as error:
        raise type(error)(f'{where}: {error}') from None


def import_optional(
    name: str, missing: Callable[[ModuleNotFoundError], str], kind: type[EmppiError] = ConfigError
) -> ModuleType:
    """Import a module; where a package is not installed, raise an error that `missing` words."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith('emppi_ros'):
            raise
        raise kind(missing(error)) from None
