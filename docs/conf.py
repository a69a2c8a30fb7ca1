"""Sphinx configuration of the site (`make docs`, with warnings as errors)."""

from pathlib import Path
import sys

sys.path.insert(0, str(Path(__file__).resolve().parent))

from emppi_ros import __version__

project = 'emppi_ros'
author = 'the emppi_ros maintainers'
project_copyright = 'the emppi_ros maintainers, Apache-2.0'
version = release = __version__

extensions = [
    'myst_parser',
    'sphinx.ext.autodoc',
    'sphinx.ext.napoleon',
    'emppi_docs.mathml',
]
source_suffix = {'.md': 'markdown'}
exclude_patterns = [
    'results/*',
    'results_articulate/*',
    'results_belief/*',
    'results_caution/*',
    'results_identify/*',
    'results_peers/*',
    'results_real/*',
    'results_robustness/*',
    'results_load/*',
    'results_track/*',
    'results_video/*',
    'emppi_docs/*',
]
nitpicky = True
nitpick_ignore_regex = [('py:(class|exc)', '.*')]  # docstrings describe types: (M, P) array
default_role = 'code'  # single backticks in docstrings

autodoc_typehints = 'none'  # shapes and units are in the docstrings
autodoc_member_order = 'bysource'
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = False
napoleon_use_param = False
napoleon_use_rtype = False

myst_enable_extensions = ['dollarmath', 'fieldlist', 'deflist']
myst_heading_anchors = 4
math_number_all = False
highlight_language = 'text'  # default of code blocks

html_theme = 'furo'
html_title = f'emppi_ros {version}'
html_static_path = ['_static']
html_css_files = ['site.css']
html_copy_source = False
html_show_sphinx = False
