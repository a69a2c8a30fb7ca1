"""
Topics, services, actions and faults.

Who uses what is read from the SROS 2 policy, which a test holds against the graph that runs;
types, QoS and words are in `reference/graph.yaml`, which another test holds against both.
"""

from pathlib import Path
import re
from typing import Any
from xml.etree import ElementTree

import yaml

from emppi_docs.generated import table
from emppi_ros.bridge.faults import MEANINGS
from emppi_ros.core import paths

SOURCE = Path(__file__).resolve().parents[1] / 'reference' / 'graph.yaml'
OWN = re.compile(  # of every node of ROS 2
    r'parameter_events|rosout|[~*]/.*|\w+/((get|change)_state|\w+_parameter(s|s_atomically|_types))'
)
USES = {  # kind -> element and attribute of the policy
    'publish': ('topics', 'publish'),
    'subscribe': ('topics', 'subscribe'),
    'serve': ('services', 'reply'),
    'call': ('services', 'request'),
    'execute': ('actions', 'execute'),
    'send goals': ('actions', 'call'),
}


def described() -> dict[str, dict[str, dict[str, Any]]]:
    """Return topics, services and actions by name, from `reference/graph.yaml`."""
    entries: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(SOURCE.read_text())
    return entries


def used(kind: str) -> dict[str, list[str]]:
    """Return the nodes that use each topic, service or action in a way, one of `USES`."""
    policy = ElementTree.parse(paths.share() / 'config' / 'sros2' / 'policy.xml').getroot()
    element, attribute = USES[kind]
    users: dict[str, list[str]] = {}
    for profile in policy.iter('profile'):
        for part in profile.findall(element):
            if part.get(attribute) != 'ALLOW':
                continue
            for item in part:
                name = (item.text or '').removeprefix('/')
                if not OWN.fullmatch(name):
                    users.setdefault(name, []).append(profile.get('node', ''))
    return users


def topics() -> str:
    """Return a table of topics."""
    senders, hearers = used('publish'), used('subscribe')
    rows = [
        (
            f'`{name}`',
            f'`{entry["type"]}`'.replace('/', '/` `') + f' `{entry["qos"]}`',  # lines may break
            ', '.join([*filter(None, [entry.get('from')]), *senders.get(name, [])]),
            ', '.join(n for n in hearers.get(name, []) if n not in ('operator', 'recorder')),
            entry['what'],
        )
        for name, entry in described()['topics'].items()
    ]
    return table(('topic', 'type, QoS', 'publisher', 'subscribers', 'description'), rows)


def services() -> str:
    """Return a table of services."""
    return _servers('service', used('serve'), used('call'))


def actions() -> str:
    """Return a table of actions."""
    return _servers('action', used('execute'), used('send goals'))


def _servers(kind: str, servers: dict[str, list[str]], callers: dict[str, list[str]]) -> str:
    rows = [
        (
            f'`{name}`',
            f'`{entry["type"]}`',
            ', '.join(servers.get(name, [])),
            ', '.join(callers.get(name, [])),
            entry['what'],
        )
        for name, entry in described()[f'{kind}s'].items()
    ]
    return table((kind, 'type', 'server', 'clients', 'description'), rows)


def faults() -> str:
    """Return a table of the bridge's faults."""
    return table(
        ('fault', 'what happened'), [(f'`{code}`', text) for code, text in MEANINGS.items()]
    )
