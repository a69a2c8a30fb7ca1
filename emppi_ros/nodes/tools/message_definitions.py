"""Message definitions (ros2msg, from the Python types) and QoS profiles as text, for bags."""

import importlib
import re
from typing import Any

from rclpy.qos import QoSProfile
import yaml

from emppi_ros.core.errors import ReplayError

_PRIMITIVES = {'double': 'float64', 'float': 'float32', 'boolean': 'bool', 'octet': 'byte'}
_FIELD = re.compile(r'(sequence<)?(?P<base>[\w/]+(<\d+>)?)(, (?P<most>\d+))?>?(?P<size>\[\d+\])?')
_RULE = '=' * 80


def name(kind: Any) -> str:
    """Return the full name of a message type, such as sensor_msgs/msg/JointState."""
    package = kind.__module__.split('.', maxsplit=1)[0]
    return f'{package}/msg/{kind.__name__}'


def text(kind: Any, fields: str | None = None) -> str:
    """Return the definition of a type, or of fields with it, and of all that it contains."""
    definitions = list(_collect(kind, {}).items())
    first = definitions.pop(0)[1] if fields is None else fields
    return '\n'.join([first, *(f'{_RULE}\nMSG: {name}\n{lines}' for name, lines in definitions)])


def qos_text(profile: QoSProfile) -> str:
    """Return a QoS profile in the format of `ros2 bag`, which it needs to play topics."""
    infinite = {'sec': 9223372036, 'nsec': 854775807}
    fields = {
        'history': int(profile.history),
        'depth': profile.depth,
        'reliability': int(profile.reliability),
        'durability': int(profile.durability),
        'deadline': dict(infinite),
        'lifespan': dict(infinite),
        'liveliness': 1,  # automatic
        'liveliness_lease_duration': dict(infinite),
        'avoid_ros_namespace_conventions': False,
    }
    return yaml.safe_dump([fields], sort_keys=False).strip()


def _collect(kind: Any, definitions: dict[str, str]) -> dict[str, str]:
    """Collect the fields of a type and of the types that it contains, by short name."""
    short = name(kind).replace('/msg/', '/')
    if short in definitions:
        return definitions
    definitions[short] = ''  # reserves its position
    lines = []
    for field, declared in kind.get_fields_and_field_types().items():
        match = _FIELD.fullmatch(declared)
        if match is None:
            raise ReplayError(f'{short}: {field}: found {declared!r}, expected a type of ROS 2')
        base = match['base']
        if '/' in base:
            package, other = base.split('/')
            _collect(getattr(importlib.import_module(f'{package}.msg'), other), definitions)
        size = match['size'] or ''
        if declared.startswith('sequence<'):
            size = f'[<={match["most"]}]' if match['most'] else '[]'
        short_base = re.sub(r'<(\d+)>', r'<=\1', base)
        lines.append(f'{_PRIMITIVES.get(base, short_base)}{size} {field}')
    definitions[short] = '\n'.join(lines)
    return definitions
