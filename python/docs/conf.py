"""The pages of the library in Python: each script is run, and its output stands below it."""

import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

HERE = Path(__file__).resolve().parent
# What the scripts write, copied beside the pages.
MADE = HERE / "_made"
MADE.mkdir(exist_ok=True)
sys.path[:0] = [str(HERE), str(HERE.parent)]

import scripts  # noqa: E402

project = "rounds"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
html_theme = "alabaster"
html_theme_options = {
    "description": "Private linear models with the statement of what they guarantee",
    "fixed_sidebar": True,
    "page_width": "1300px",
    "body_max_width": "1050px",
}
# custom.css is the theme's name for a sheet of one's own.
html_static_path = ["_static"]
html_show_copyright = html_show_sphinx = html_show_sourcelink = False
exclude_patterns = ["_build"]
toc_object_entries = False
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header"]
html_extra_path = [MADE.name]


class Run(Directive):
    """A script with its output, or the library for want of which it was not run."""

    required_arguments = 1

    def run(self):
        path = HERE / self.arguments[0]
        done, lacks = scripts.run(path, MADE)
        if lacks is None and done.returncode != 0:
            raise self.error(f"{path.name} failed: {done.stderr}")
        output = done.stdout if lacks is None else f"(not run here: {lacks} is not installed)"
        code = nodes.literal_block(path.read_text(encoding="utf-8"), path.read_text(encoding="utf-8"), language="python")
        shown = nodes.literal_block(output, output, language="text")
        return [code, nodes.paragraph("", "It prints:"), shown]


def setup(app):
    app.add_directive("run", Run)
