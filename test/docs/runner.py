"""Run the code blocks of a page in order, in a temporary folder."""

import contextlib
import io
import os
from pathlib import Path
import re
import shlex
import subprocess
import sys

from pages import ROOT

from emppi_ros import cli

_NUMBER = re.compile(r'-?\d+(\.\d+)?(e[+-]?\d+)?')


def run(blocks, folder):
    """Run the blocks of one page. An AssertionError names the block that fails."""
    (folder / 'config').symlink_to(ROOT / 'config')  # pages may use files of the repository
    output, names = '', {'__name__': '__main__'}
    for block in blocks:
        if block.kind == 'file':
            place = folder / block.argument
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(block.text)
        elif block.kind == 'run' and block.language == 'python':
            output = _python(block, names, folder)
        elif block.kind == 'run':
            output = ''.join(_command(block, line, folder) for line in block.commands)
        elif block.kind == 'output':
            _compare(block, output)
        elif block.kind == 'part of':
            _compare(block, (ROOT / block.argument).read_text(), exact=True)


def _python(block, names, folder):
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(block.text, block.place, 'exec'), names)
    return printed.getvalue()


def _command(block, line, folder):
    """Run one command; `emppi` in this process, to avoid the time of importing it again."""
    wanted = int(block.argument.removeprefix('exit')) if block.argument else 0
    if line.startswith('emppi ') and not set('|<>;&$') & set(line):
        printed = io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            with contextlib.redirect_stderr(printed):
                try:
                    status = cli.main(shlex.split(line)[1:])
                except SystemExit as end:
                    status = end.code
        output = printed.getvalue()
    else:
        env = {**os.environ, 'PYTHONPATH': str(ROOT)}
        env['PATH'] = f'{Path(sys.executable).parent}{os.pathsep}{env["PATH"]}'
        done = subprocess.run(
            ['bash', '-c', line], cwd=folder, env=env, text=True, timeout=120, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        status, output = done.returncode, done.stdout
    assert status == wanted, (
        f'{block.place}: {line}: exit {status}, not {wanted}: {output[-3000:]}'
    )
    return output


def _compare(block, output, exact=False):
    """Check that the output contains the lines of a block, except for numbers, which vary."""
    lines = iter([_bare(line, exact) for line in output.splitlines()])
    for line in block.text.splitlines():
        if _bare(line, exact) in ('', '...'):
            continue
        wanted = [re.escape(part) for part in _bare(line, exact).split('...')]
        pattern = re.compile(r'.*'.join(wanted) + r'\Z')
        assert any(pattern.match(other) for other in lines), (
            f'{block.place}: no line {line!r} (after the preceding lines) in: {output}'
        )


def _bare(line, exact):
    """Return a line without repeated spaces and numbers (or, if exact, comments)."""
    line = re.sub(r'(^|\s)#.*', '', line) if exact else _NUMBER.sub('0', line)
    return ' '.join(line.split())
