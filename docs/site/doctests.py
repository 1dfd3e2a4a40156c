"""Shows the examples of docstrings as code.

Griffe reads doctests only inside an indented section; those of this package
stand at the margin, below a line `Example:`. Where code alone follows the first
line of a module's docstring, the formatter has removed its indent.
"""

import ast
import re

import griffe

_EXAMPLE = re.compile(r"^>>> .*?(?=\n\n|\Z)", re.DOTALL | re.MULTILINE)


class Doctests(griffe.Extension):
    """Puts a fence around the code of a docstring."""

    def on_object(self, *, obj, **kwargs):
        """Rewrites the docstring of one object."""
        if not obj.docstring:
            return
        value = re.sub(
            r"^Example:$",
            "**Example**",
            obj.docstring.value,
            flags=re.MULTILINE,
        )
        value = _EXAMPLE.sub(r"```pycon\n\g<0>\n```\n", value)
        if obj.is_module:
            paragraphs = map(fenced, value.split("\n\n"))
            value = "\n\n".join(paragraphs)
        obj.docstring.value = value


def fenced(paragraph):
    """Returns a paragraph, in a fence if it is a Python program."""
    try:
        statements = ast.parse(paragraph).body
    except SyntaxError:
        return paragraph
    is_code = any(
        isinstance(node, ast.Call | ast.Assign)
        for statement in statements
        for node in ast.walk(statement)
    )
    return f"```python\n{paragraph}\n```" if is_code else paragraph
