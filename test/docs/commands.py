"""Check names, options and arguments of commands that pages show without running them."""

import contextlib
import io
import re
import shlex

from emppi_docs import commands, graph, parameters

from emppi_ros import cli
from emppi_ros.core import paths

_TARGETS = set(
    re.findall(r'^([a-z]+):', (paths.share() / 'Makefile').read_text(), flags=re.MULTILINE)
)


def check(line):
    """Return an error message for a shell command, or ''."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        return str(error)
    while words and re.fullmatch(r'[A-Z_]+=.*', words[0]):  # environment variables
        words = words[1:]
    if not words:
        return ''
    program = words[0].rpartition('/')[2]
    if program == 'emppi':
        return _emppi(words[1:])
    if program == 'make':
        unknown = {w for w in words[1:] if '=' not in w} - _TARGETS
        return f'no target {unknown} in the Makefile' if unknown else ''
    if program == 'ros2':
        return _ros2(words[1:])
    return ''


def _emppi(words):
    output = io.StringIO()
    with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
        try:
            cli.make_parser().parse_args(words)
        except SystemExit as end:
            return output.getvalue() if end.code else ''
    return ''


KINDS = {'topic': '/msg/', 'service': '/srv/', 'action': '/action/'}


def _ros2(words):
    """Check the names of this package in a `ros2` command."""
    if words[:2] == ['launch', 'emppi_ros']:
        given = {word.partition(':=')[0] for word in words[3:] if ':=' in word}
        unknown = given - set(parameters.arguments())
        return f'no launch arguments {unknown}' if unknown else ''
    if words[:2] == ['run', 'emppi_ros']:
        known = {f'emppi_{name}' for name in parameters.node_modules()} | {'emppi'}
        return '' if words[2] in known else f'no executable {words[2]}'
    named = [word for word in words[2:] if not word.startswith('-')]
    if words[0] in KINDS and named:
        entries = graph.described()[f'{words[0]}s']
        name = named[0].removeprefix('/')
        entry = entries.get(re.sub('^tracking/.*', 'tracking/*', name))
        if entry is None:
            return f'no {words[0]} {name}'
        kinds = [w for w in named[1:] if w.count('/') == 2]
        wanted = entry['type'].replace('/', KINDS[words[0]])
        return f'{name} is of type {wanted}' if kinds and kinds != [wanted] else ''
    if words[0] == 'param' and named:
        node = named[0].removeprefix('/')
        known = {row[0] for row in parameters.declared(node)}
        known |= set(re.findall(r'`([\w.]+)`', parameters.tunable('panda_push')))
        return '' if named[1:2] <= [] or named[1] in known else f'no parameter {named[1]}'
    return ''


def options():
    """Return the options of each `emppi` command, by its name."""
    return {
        parser.prog: {o for action in parser._actions for o in action.option_strings}
        for parser in commands.commands(cli.make_parser())
    }


def check_mention(span):
    """Return an error message for an inline command, which may have placeholders, or ''."""
    known = options()
    prog = max((p for p in known if (span + ' ').startswith(p + ' ')), key=len, default='')
    if not prog:
        return f'no command {span!r}'
    wrong = set(re.findall(r'(?<!\S)--[a-z-]+', span)) - known[prog]
    return f'{prog} has no {wrong}' if wrong else ''
