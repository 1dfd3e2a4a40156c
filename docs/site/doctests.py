"""Shows the examples of docstrings as code.

Griffe reads doctests only inside an indented section; those of this package
stand at the margin, below a line `Example:`. And it removes the indent of code
below the first line of a module's docstring, where nothing else follows.
"""

import ast
import re

import griffe

_EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around each doctest of a docstring."""

    def on_object(self, *, obj, **kwargs):
        """Rewrites the docstring of one object."""
        if not obj.docstring:
            return
        value = obj.docstring.value
        if obj.is_module:
            tree = ast.parse(obj.filepath.read_text())
            value = ast.get_docstring(tree, clean=False).strip()
        value = re.sub(r"^Example:$", "**Example**", value, flags=re.MULTILINE)
        obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```\n", value)
