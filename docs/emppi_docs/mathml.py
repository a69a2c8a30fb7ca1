"""Equations as MathML, which browsers render without scripts, network or LaTeX."""

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def visit_inline(writer: Any, node: nodes.math) -> None:
    """Write an inline equation."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    """Write a displayed equation, with its number if it has one."""
    identifier = f' id="{node["ids"][0]}"' if node['ids'] else ''
    writer.body.append(f'<div class="math equation"{identifier}>')
    writer.body.append(tex2mathml(node.astext(), as_block=True))
    if number := node.get('number'):
        link = f'<a class="headerlink" href="#{node["ids"][0]}" title="Link to it">#</a>'
        writer.body.append(f'<span class="eqno">({number}){link}</span>')
    writer.body.append('</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer('mathml', (visit_inline, None), (visit_block, None))
    return {'parallel_read_safe': True, 'parallel_write_safe': True}
