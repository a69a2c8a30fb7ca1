"""Runs the blocks of a page, in their order, in a folder of its own."""

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
    """Run the blocks of one page; AssertionError names the block that does not do as it says."""
    (folder / 'config').symlink_to(ROOT / 'config')  # a page may take files of the repository
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
    said = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(said):
        exec(compile(block.text, block.place, 'exec'), names)
    return said.getvalue()


def _command(block, line, folder):
    """Run one command; ours in this process, which spares the time to import it all again."""
    wanted = int(block.argument.removeprefix('exit')) if block.argument else 0
    if line.startswith('emppi ') and not set('|<>;&$') & set(line):
        said = io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(said):
            with contextlib.redirect_stderr(said):
                try:
                    status = cli.main(shlex.split(line)[1:])
                except SystemExit as end:
                    status = end.code
        output = said.getvalue()
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
    """Find the lines of a block in the output; numbers differ from machine to machine."""
    lines = iter([_bare(line, exact) for line in output.splitlines()])
    for line in block.text.splitlines():
        if _bare(line, exact) in ('', '...'):
            continue
        wanted = [re.escape(part) for part in _bare(line, exact).split('...')]
        pattern = re.compile(r'.*'.join(wanted) + r'\Z')
        assert any(pattern.match(other) for other in lines), (
            f'{block.place}: no line {line!r} (after those before it) in: {output}'
        )


def _bare(line, exact):
    """Return a line without what may differ: spaces; numbers of a run, comments of a file."""
    line = re.sub(r'(^|\s)#.*', '', line) if exact else _NUMBER.sub('0', line)
    return ' '.join(line.split())
