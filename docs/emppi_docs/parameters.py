"""Tables of node parameters and launch arguments, from their declarations in the code."""

import ast
from collections.abc import Iterator
import dataclasses
import importlib
import inspect
from pathlib import Path
import pkgutil
from types import ModuleType
from typing import Any

from emppi_docs import keys
from emppi_docs.generated import table
from emppi_ros import nodes
from emppi_ros.core import paths
from emppi_ros.nodes import backends
from emppi_ros.tasks import tuning
from emppi_ros.tasks.task import load_task

HEAD = ('parameter', 'description', 'value', 'default')
_CALLS = ('declare', 'declare_all')


def node_modules() -> dict[str, ModuleType]:
    """Return the executable node modules, by node name."""
    modules = {}
    for item in pkgutil.iter_modules(nodes.__path__):
        if (Path(nodes.__path__[0]) / item.name / 'node.py').is_file():
            module = importlib.import_module(f'{nodes.__name__}.{item.name}.node')
            if node_class(module) is not None:
                modules[item.name] = module
    return modules


def node_class(module: ModuleType) -> type | None:
    """Return the node that a module defines."""
    for _, cls in inspect.getmembers(module, inspect.isclass):
        if cls.__module__ == module.__name__ and cls.__name__.endswith('Node'):
            return cls
    return None


def declared(name: str) -> list[tuple[str, str, str, str]]:
    """Return name, description, permitted values and default of each parameter of a node."""
    rows: dict[str, tuple[str, str, str, str]] = {}
    for module in _modules(name):
        for row in _calls(module):
            rows.setdefault(row[0], row)
    return list(rows.values())


def _modules(name: str) -> list[ModuleType]:
    """Return the modules that declare parameters of a node."""
    module = node_modules()[name]
    own = [importlib.import_module(c.__module__) for c in node_class(module).__mro__]  # type: ignore[union-attr]
    modules = [m for m in own if m.__name__.startswith('emppi_ros.')]
    if name == 'bridge':
        modules += [
            importlib.import_module(f'{backends.__name__}.{item.name}')
            for item in pkgutil.iter_modules(backends.__path__)
        ]
    return modules


def _calls(module: ModuleType) -> Iterator[tuple[str, str, str, str]]:
    """Yield the parameters that a module declares, in this order."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = ast.unparse(node.func).rpartition('.')[2]
        if called not in _CALLS:
            continue
        if called == 'declare':
            name, value, words = (ast.literal_eval(a) for a in node.args[1:])
            yield name, words, '', f'`{value}`'.replace('True', 'true').replace('False', 'false')
            continue
        for field in dataclasses.fields(_resolve(module, ast.unparse(node.args[1]))):
            doc, allowed = field.metadata.get('doc', ''), field.metadata.get('allowed', '')
            yield field.name, doc, allowed, keys.default(field)


def _resolve(module: ModuleType, name: str) -> Any:
    value: Any = module
    for part in name.split('.'):
        value = getattr(value, part)
    return value


def of_node(name: str) -> str:
    """Return the table of a node's parameters; for `all`, one section per node."""
    if name != 'all':
        rows = [(f'`{n}`', *rest) for n, *rest in declared(name)]
        return table(HEAD, rows)  # type: ignore[arg-type]
    parts = []
    for node in node_modules():
        words = keys.first_sentence(node_class(node_modules()[node]))
        parts.append(f'## `{node}`\n\n{words}\n\n{of_node(node)}')
    return '\n'.join(parts)


def tunable(task: str) -> str:
    """Return the table of the planner's runtime parameters for a task."""
    knobs = tuning.tunable_parameters(load_task(task).data)
    rows = [(f'`{k.name}`', k.doc, f'{k.low:g} to {k.high:g}') for k in knobs.values()]
    return table(('parameter', 'description', 'range'), rows)


def launch_arguments() -> str:
    """Return the table of launch arguments, without executing the launch file."""
    rows = []
    for name, (value, words) in arguments().items():
        rows.append((f'`{name}`', words, f'`{value}`' if value else 'empty'))
    return table(('argument', 'description', 'default'), rows)


def arguments() -> dict[str, tuple[str, str]]:
    """Return default and description of each launch argument."""
    text = (paths.share() / 'launch' / 'emppi.launch.py').read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == 'ARGUMENTS':
            entries = zip(node.value.keys, node.value.values, strict=True)  # type: ignore[attr-defined]
            return {
                ast.literal_eval(k): (_value(v.elts[0]), ast.literal_eval(v.elts[1]))
                for k, v in entries
            }
    raise LookupError('launch/emppi.launch.py has no ARGUMENTS')


def _value(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    return '/'.join(  # a path in this package
        n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)
    )
