"""
Parts of the reference that are made from the code, and committed in its pages.

    <!-- generated: keys emppi_ros.tasks.schema:TaskFile -->
    ...
    <!-- end of generated -->

`make reference` writes what lies between the comments; a test fails if it is outdated.
"""

import importlib
from pathlib import Path
import re
import sys

PART = re.compile(
    r'(?P<begin><!-- generated: (?P<words>[^\n]+) -->\n).*?(?P<end><!-- end of generated -->)',
    re.DOTALL,
)
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


def update(text: str) -> str:
    """Return a page whose generated parts are those of the code."""
    return PART.sub(
        lambda part: f'{part["begin"]}\n{make(part["words"]).strip()}\n\n{part["end"]}', text
    )


def main(folder: Path) -> None:
    """Update the generated parts of all pages in a folder."""
    for page in folder.rglob('*.md'):
        text = page.read_text(encoding='utf-8')
        if PART.search(text):
            page.write_text(update(text), encoding='utf-8')


if __name__ == '__main__':
    main(Path(sys.argv[1]))
