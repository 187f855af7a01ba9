"""The pages of the library in Python: each script is run, and its output stands below it."""

import os
import subprocess
import sys
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive

HERE = Path(__file__).resolve().parent
# What the scripts write, copied beside the pages.
MADE = HERE / "_made"
MADE.mkdir(exist_ok=True)
sys.path.insert(0, str(HERE.parent))

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
    """A script with its output, or the reason why it was not run where PyTorch is not installed."""

    required_arguments = 1

    def run(self):
        path = HERE / self.arguments[0]
        command = HERE.parents[1] / "target" / "release"
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent), "PATH": f"{command}:{os.environ['PATH']}"}
        done = subprocess.run([sys.executable, str(path), str(MADE)], capture_output=True, text=True, env=environment)
        output = done.stdout
        if "ModuleNotFoundError: No module named 'torch'" in done.stderr:
            output = "(not run here: " + done.stderr.strip().splitlines()[-1].removeprefix("ModuleNotFoundError: ") + ")"
        elif done.returncode != 0:
            raise self.error(f"{path.name} failed: {done.stderr}")
        code = nodes.literal_block(path.read_text(encoding="utf-8"), path.read_text(encoding="utf-8"), language="python")
        shown = nodes.literal_block(output, output, language="text")
        return [code, nodes.paragraph("", "It prints:"), shown]


def setup(app):
    app.add_directive("run", Run)
