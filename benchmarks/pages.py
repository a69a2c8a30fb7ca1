"""Pages of results: a template in Markdown, and the values of a study."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
import re
from types import ModuleType
from typing import Any

from emppi_ros.calibration import report
from emppi_ros.calibration.report import Provenance

TEMPLATES = Path(__file__).parent / 'studies'
ORIGIN = '## Origin'  # the last section
_ALONE = re.compile(r'^\{(\w+)\}$', re.MULTILINE)


def fill(name: str, values: Mapping[str, Any]) -> str:
    """
    Return the template of a name, with values in place of `{key}` as in `str.format`.

    Values may be lists of paragraphs. A section is left out if all values that have a line of
    their own in it are empty.
    """
    texts = {key: _text(value) for key, value in values.items()}
    template = (TEMPLATES / f'{name}.md').read_text(encoding='utf-8')
    sections = re.split(r'^(?=## )', template, flags=re.MULTILINE)
    kept = [
        section.format(**texts)
        for i, section in enumerate(sections)
        if i == 0 or not (alone := _ALONE.findall(section)) or any(texts[key] for key in alone)
    ]
    return re.sub(r'\n{3,}', '\n\n', ''.join(kept)).strip() + '\n'


def constants(*modules: ModuleType) -> dict[str, Any]:
    """Return the constants of modules by name, for a template."""
    return {k: v for module in modules for k, v in vars(module).items() if k.isupper()}


def _text(value: Any) -> Any:
    """Return paragraphs as one text; other values as they are."""
    return '\n\n'.join(filter(None, value)) if isinstance(value, list) else value


def origin(
    rows: Sequence[Any], wanted: int, provenance: Provenance, skipped: Sequence[str]
) -> Iterable[str]:
    """Yield command, machine, date and makers of rows, and what is left out of the page."""
    yield from report.origin(rows, wanted, provenance)
    counts = Counter(row.made_by for row in rows)
    if len(counts) > 1:
        yield 'Rows come from several versions or machines:'
        yield report.bullets(f'{count} by {maker}' for maker, count in counts.items())
    if skipped:
        yield 'Left out:'
        yield report.bullets(skipped)
