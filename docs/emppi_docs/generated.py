"""
The directive `generated`: a part of the reference, made from the code while the site is built.

    ```{generated} keys emppi_ros.tasks.schema:TaskFile
    ```
"""

import importlib

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

MAKERS = {  # word -> function from an argument to Markdown
    'keys': 'emppi_docs.keys:of_class',
    'residuals': 'emppi_docs.keys:residuals',
    'norms': 'emppi_docs.keys:norms',
    'fields': 'emppi_docs.keys:fields',
    'topics': 'emppi_docs.graph:topics',
    'services': 'emppi_docs.graph:services',
    'actions': 'emppi_docs.graph:actions',
    'parameters': 'emppi_docs.parameters:of_node',
    'tunable': 'emppi_docs.parameters:tunable',
    'launch': 'emppi_docs.parameters:launch_arguments',
    'commands': 'emppi_docs.commands:all_of_them',
    'makefile': 'emppi_docs.commands:targets',
    'faults': 'emppi_docs.graph:faults',
    'errors': 'emppi_docs.commands:errors',
}


def make(words: str) -> str:
    """Return the Markdown of a part of the reference; `words` are its name and an argument."""
    name, _, argument = words.partition(' ')
    module, _, function = MAKERS[name].partition(':')
    text: str = getattr(importlib.import_module(module), function)(*filter(None, [argument]))
    return text


def find(place: str) -> type:
    """Return the class at a place such as emppi_ros.tasks.schema:TaskFile."""
    module, _, name = place.partition(':')
    cls: type = getattr(importlib.import_module(module), name)
    return cls


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    lines = [head, ('---',) * len(head), *rows]
    cells = [[str(cell).replace('|', '\\|').replace('\n', ' ') for cell in row] for row in lines]
    return '\n'.join(f'| {" | ".join(row)} |' for row in cells) + '\n'


class Generated(SphinxDirective):
    """Puts Markdown that a function makes into a page."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return what the Markdown says; of what the code is now, not when the page was read."""
        self.env.note_reread()
        return self.parse_text_to_nodes(make(self.arguments[0]), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive('generated', Generated)
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
