"""
Parse the code blocks of README.md and the site. A comment before each block gives its kind.

    <!-- file lever.yaml -->              the block is written to this file
    <!-- run -->                          its commands or Python code run beside the files
    <!-- run, exit 2 -->                  ... and end with this exit status
    <!-- output -->                       the preceding block prints these lines in this order
    <!-- part of config/nodes.yaml -->    this file of the repository contains these lines in order
    <!-- not run: needs a real Panda -->  the block cannot run here; commands and keys are checked
"""

from pathlib import Path
import re
from typing import NamedTuple

from emppi_docs.generated import PART

ROOT = Path(__file__).resolve().parents[2]
# by `make paper`, `make articulate`, `make belief`, `make caution`, `make csvgd`, `make dual`,
# `make identify`, `make learned`, `make peers`, `make real`, `make robustness`, `make track` and
# `make faults`
GENERATED = {
    'docs/results.md', 'docs/results_articulate.md', 'docs/results_belief.md',
    'docs/results_peers.md', 'docs/results_real.md', 'docs/results_robustness.md',
    'docs/results_caution.md', 'docs/results_csvgd.md', 'docs/results_dual.md',
    'docs/results_identify.md', 'docs/results_learned.md', 'docs/results_load.md',
    'docs/results_track.md', 'docs/results_video.md', 'docs/reliability.md',
}  # fmt: skip
PAGES = sorted(
    path
    for path in [ROOT / 'README.md', *(ROOT / 'docs').rglob('*.md')]
    if path.relative_to(ROOT).as_posix() not in GENERATED
)
KINDS = ('file', 'run', 'output', 'part of', 'not run:')
_FENCE = re.compile(r'^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r'<!-- (.+?) -->\n\Z')


class Block(NamedTuple):
    page: str  # relative to the repository
    line: int
    language: str
    text: str
    mark: str  # text of the comment, or ''

    @property
    def place(self):
        return f'{self.page}:{self.line}'

    @property
    def kind(self):
        return next((kind for kind in KINDS if self.mark.startswith(kind)), '')

    @property
    def argument(self):
        return self.mark.removeprefix(self.kind).strip(' ,')

    @property
    def commands(self):
        """Return the commands of a shell block: comments removed, continuation lines joined."""
        text = re.sub(r'\\\n\s*', ' ', self.text)
        lines = (re.sub(r'(^|\s)#.*', '', line).strip() for line in text.splitlines())
        return [line for line in lines if line]


def blocks(path):
    """Return the code blocks of a page, without directives and generated parts."""
    text = PART.sub(lambda part: re.sub(r'[^\n]', '', part[0]), path.read_text())  # keeps lines
    result = []
    for match in _FENCE.finditer(text):
        comment = _COMMENT.search(text[: match.start()])
        block = Block(
            path.relative_to(ROOT).as_posix(),
            text[: match.start()].count('\n') + 1,
            match['language'].strip(),
            match['text'],
            comment[1] if comment else '',
        )
        if not block.language.startswith('{'):
            result.append(block)
    return result


def spans(path):
    """Return the inline `code` of a page."""
    text = _FENCE.sub('', path.read_text())
    return [' '.join(span.split()) for span in re.findall(r'`([^`]+)`', text)]


ALL = [block for path in PAGES for block in blocks(path)]
