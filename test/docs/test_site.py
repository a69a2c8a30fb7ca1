"""The site builds without warnings and needs no network."""

import re

from emppi_docs import graph
from pages import ROOT
import pytest

import emppi_ros

sphinx = pytest.importorskip('sphinx.cmd.build', reason='Sphinx is not installed (extra docs)')
EQUATIONS = [  # of the paper, (1) to (10)
    'dynamics', 'cost', 'problem', 'energy', 'densities', 'divergence', 'optimal', 'mean',
    'update', 'belief',
]  # fmt: skip


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    """Build the site, warnings are errors; return its folder."""
    pytest.importorskip('rclpy', reason='ROS 2 is not installed (rclpy): nodes are imported')
    place = tmp_path_factory.mktemp('site')
    trees = tmp_path_factory.mktemp('trees')
    status = sphinx.main(['-q', '-W', '-b', 'html', '-d', str(trees), f'{ROOT}/docs', str(place)])
    assert status == 0
    return place


def read(site, name):
    return (site / name).read_text()


@pytest.mark.slow
def test_every_page_is_on_the_site(site):
    pages = {p.relative_to(ROOT / 'docs') for p in (ROOT / 'docs').rglob('*.md')}
    assert {p.with_suffix('.html') for p in pages} <= {
        p.relative_to(site) for p in site.rglob('*')
    }


def test_equations_have_the_numbers_of_the_paper(site):
    text = read(site, 'method.html')
    for number, name in enumerate(EQUATIONS, 1):
        assert re.search(rf'id="equation-eq-{name}".*?class="eqno">\({number}\)', text, re.DOTALL)


def test_equations_are_drawn_by_the_browser_itself(site):
    text = read(site, 'method.html')
    assert text.count('<math') > 40
    assert 'class="math notranslate' not in text and '<script src="http' not in text


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob('*.html'):
        loaded = re.findall(
            r'<(?:script|img|link)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text()
        )
        assert not loaded, f'{page.name}: {loaded}'


def test_the_reference_describes_each_name_of_the_python_api(site):
    text = read(site, 'reference/api.html')
    assert not [name for name in emppi_ros.__all__ if f'id="emppi_ros.{name}"' not in text]


def test_the_reference_holds_keys_topics_parameters_and_commands(site):
    for page, words in {
        'task': ('noise_variance', 'tracking_delay_s', 'following_error', 'jnt_articulation'),
        'robot': ('dynamics_factor', 'accept_custom_limits'),
        'prior': ('sha256', 'initial'),
        'topics': tuple(graph.described()['topics']) + ('swap-lost',),
        'parameters': ('fci_address', 'plan_lost_s', 'belief_timeout_s', 'params_file', 'rate_hz'),
        'commands': ('emppi bench paper', '--what-if', 'make faults', 'AllDivergedError'),
    }.items():
        text = re.sub(r'<[^>]+>', '', read(site, f'reference/{page}.html'))
        assert not [word for word in words if word not in text]
