"""The notebook is committed without outputs; its cells run in order and draw path and belief."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[2] / 'examples' / 'push.ipynb'
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text())['cells'] if cell['cell_type'] == 'code']


def test_the_notebook_has_no_outputs():
    assert not [cell for cell in CELLS if cell['outputs'] or cell['execution_count']]


@pytest.mark.slow
def test_the_notebook_runs(monkeypatch):
    monkeypatch.setenv('MPLBACKEND', 'Agg')
    plt = pytest.importorskip('matplotlib.pyplot')
    plt.switch_backend('Agg')
    plt.close('all')
    names = {}
    for number, cell in enumerate(CELLS):
        exec(compile(''.join(cell['source']), f'{NOTEBOOK.name}:{number}', 'exec'), names)
    path, belief = (plt.figure(number) for number in plt.get_fignums())
    assert len(path.axes) == len(belief.axes) == 2
    assert names['path'].shape == (len(names['trace'].frames), 3)
    assert names['sd'][-1, 1] < 0.5 * names['sd'][0, 1]  # friction, which each push shows
    plt.close('all')
