"""Every code block of the documentation runs or says why not; its commands exist."""

import subprocess

from commands import check, check_mention
from pages import ALL, GENERATED, PAGES, ROOT, blocks, spans
import pytest
from runner import run
import yaml

NOT_RUN = [block for block in ALL if block.kind == 'not run:']
SHELL = [b for b in ALL if b.language in ('', 'bash', 'sh') and b.kind in ('run', 'not run:')]
REASONS = (  # accepted for blocks that do not run here
    'needs a ROS 2 installation', 'needs a real Panda', 'needs a running graph', 'takes hours',
    'needs a recording', 'needs the network', 'tests of their own run it', 'an excerpt',
)  # fmt: skip


@pytest.mark.parametrize('block', ALL, ids=lambda b: b.place)
def test_every_block_is_marked(block):
    assert block.kind, f'{block.place}: add a comment with its kind (see test/docs/pages.py)'


@pytest.mark.slow
@pytest.mark.parametrize('path', PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_the_blocks_of_a_page_do_what_it_says(path, tmp_path):
    if any(b.kind == 'run' and 'rclpy' in b.mark for b in blocks(path)):
        pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy)')
    run(blocks(path), tmp_path)


@pytest.mark.parametrize('block', NOT_RUN, ids=lambda b: f'{b.place}: {b.argument}')
def test_a_block_that_is_not_run_says_why_and_is_well_formed(block):
    assert block.argument.startswith(REASONS), f'{block.place}: no reason among {REASONS}'
    if block.language == 'yaml':
        yaml.safe_load(block.text)
    if block.language == 'python':
        compile(block.text, block.place, 'exec')
    if block in SHELL:
        subprocess.run(['bash', '-n', '-c', block.text], check=True)


@pytest.mark.parametrize('block', SHELL, ids=lambda b: b.place)
def test_commands_have_the_names_and_options_that_are_written(block):
    wrong = {line: error for line in block.commands if (error := check(line))}
    assert not wrong, f'{block.place}: {wrong}'


@pytest.mark.slow
@pytest.mark.parametrize('path', PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_commands_that_are_mentioned_exist(path):
    wrong = [error for s in spans(path) if s.startswith('emppi ') and (error := check_mention(s))]
    assert not wrong


def test_pages_that_are_written_by_a_command_say_so():
    for name in GENERATED:
        text = (ROOT / name).read_text()
        names = (
            'paper', 'articulate', 'belief', 'caution', 'csvgd', 'dual', 'identify', 'learned',
            'peers', 'real', 'robustness', 'track', 'video',
        )  # fmt: skip
        commands = tuple(f'emppi bench {name}' for name in names)
        assert 'do not edit' in text or any(command in text for command in commands)


@pytest.mark.parametrize(
    'line',
    [
        'emppi run', 'emppi run panda_push --sed 3', 'emppi fly', 'make coffee',
        'ros2 launch emppi_ros emppi.launch.py tasks:=panda_push',
        'ros2 run emppi_ros emppi_pilot', 'ros2 topic echo /emppi/beliefs',
        'ros2 service call /emppi/arm std_srvs/srv/Trigger', 'ros2 param get /planner speed',
        "emppi run 'panda",
    ],
)  # fmt: skip
def test_the_test_finds_what_it_looks_for(line):
    assert check(line)
