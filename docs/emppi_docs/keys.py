"""Tables of YAML keys, from the dataclasses into which the files are parsed."""

from collections.abc import Iterator
import dataclasses
import typing
from typing import Any

from emppi_docs.generated import find, table
from emppi_ros.core.config import describe_type
from emppi_ros.model.fields import FIELDS
from emppi_ros.tasks.norms import NORMS
from emppi_ros.tasks.residuals import RESIDUALS

HEAD = ('key', 'description', 'value', 'default')
OF_NAMES = {  # contents of mappings whose keys are chosen by the author of a file
    ('TaskFile', 'parameters'): 'a [parameter](#parameters-name)',
    ('Robot', 'parameters'): 'a [parameter](task.md#parameters-name)',
    ('TaskFile', 'objects'): 'an [object](#objects-name)',
    ('TaskFile', 'cost'): 'a [weighted residual](#cost-name)',
    ('StageConfig', 'cost'): 'a [weighted residual](#cost-name)',
    ('ProbeConfig', 'cost'): 'a [weighted residual](#cost-name)',
    ('Condition', 'residual'): 'a [residual](#residuals)',
    ('LossCondition', 'residual'): 'a [residual](#residuals)',
    ('SimulationConfig', 'truth'): 'a [distribution](#parameters-name-prior) each',
}


def of_class(place: str) -> str:
    """Return the table of a class's keys, followed by those of nested classes."""
    return ''.join(_tables(find(place), '', set()))


def _tables(cls: Any, path: str, done: set[type]) -> Iterator[str]:
    """Yield the table of a class's keys; then those of nested classes, under their paths."""
    done.add(cls)
    if path:
        yield f'\n**`{path}`** — {first_sentence(cls)}\n\n'
    yield table(HEAD, [_row(cls, field) for field in dataclasses.fields(cls)])
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        for inner in classes(hints[field.name]):
            if inner not in done:
                here = f'{path}: {field.name}' if path else field.name
                yield from _tables(inner, here, done)


def _row(cls: type, field: dataclasses.Field[Any]) -> tuple[str, ...]:
    hint = typing.get_type_hints(cls)[field.name]
    words = str(field.metadata.get('allowed') or '') or describe_type(hint).replace(' or null', '')
    if (cls.__name__, field.name) in OF_NAMES:
        words = OF_NAMES[cls.__name__, field.name]
    elif classes(hint):
        several = typing.get_origin(hint) in (tuple,)
        words = 'a list of mappings, below' if several else 'a mapping, below'
        words += ', or `none`' if type(None) in typing.get_args(hint) else ''
    return f'`{field.name}`', field.metadata.get('doc', ''), words, default(field)


def default(field: dataclasses.Field[Any]) -> str:
    """Return the default of a key, as YAML."""
    if field.default is field.default_factory is dataclasses.MISSING:
        return '**required**'
    value = field.default
    if value is dataclasses.MISSING:
        value = field.default_factory()  # type: ignore[misc]
    if value is None or value in ((), {}):
        return 'none'
    if dataclasses.is_dataclass(value):
        return 'those below'
    if isinstance(value, bool):
        return f'`{str(value).lower()}`'
    if isinstance(value, tuple):
        return f'`{list(value)}`'
    return f'`{value}`' if value != '' else 'empty'


def classes(hint: Any) -> list[type]:
    """Return the dataclasses in an annotation."""
    if dataclasses.is_dataclass(hint):
        return [hint]  # type: ignore[list-item]
    return [cls for argument in typing.get_args(hint) for cls in classes(argument)]


def first_sentence(thing: Any) -> str:
    """Return the first sentence of a docstring."""
    text = ' '.join((thing.__doc__ or '').split('\n\n')[0].split())
    return text.replace('*', '\\*').replace('<', '&lt;')


def slug(path: str) -> str:
    """Return a path as a label."""
    return path.replace(': ', '-').replace('_', '-')


def residuals() -> str:
    """Return the table of residuals."""
    rows = []
    for name, cls in RESIDUALS.items():
        keys = [
            f'`{f.name}`: {f.metadata["doc"]}'
            + ('' if default(f) == '**required**' else f' ({default(f)})')
            for f in dataclasses.fields(cls)
        ]
        rows.append((f'`{name}`', first_sentence(cls), '<br>'.join(keys)))
    return table(('residual', 'description', 'keys (default)'), rows)


def norms() -> str:
    """Return a table of norms."""
    return table(
        ('norm', 'description'),
        [
            (f'`{name}`', first_sentence(function).removeprefix('Return '))
            for name, function in NORMS.items()
        ],
    )


def fields() -> str:
    """Return the table of MuJoCo fields that a parameter may set."""
    rows = [
        (f'`{name}`', f.kind, f.unit, f'0 to {f.size - 1}' if f.size > 1 else '', f.doc)
        for name, f in FIELDS.items()
    ]
    return table(('`field`', '`of`', 'unit', '`element`', 'description'), rows)
