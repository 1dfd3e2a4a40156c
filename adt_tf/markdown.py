"""Escapes text for Markdown, so that it has no effect as HTML or markup."""

from __future__ import annotations

import re

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(value: object) -> str:
    r"""Escapes a text for Markdown, including cells of tables.

    Underscores inside words, as in adt_exp, are not markup and stay.

    >>> print(escape("<b> *a* adt_exp _b_ [x](y) |"))
    &lt;b&gt; \*a\* adt_exp \_b\_ \[x\](y) \|
    """
    text = " ".join(str(value).split())
    text = re.sub(r"[\\`*\[\]|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)
    # A single ampersand, as in C&W, is not markup either.
    return re.sub(r"[<>]|&(?=#?\w+;)", lambda match: _ENTITIES[match[0]], text)


def code(value: object) -> str:
    r"""Formats a text as inline code.

    >>> print(code("adt_exp"), code("<b>`"))
    `adt_exp` <code>&lt;b&gt;\`</code>
    """
    text = " ".join(str(value).split())
    # Nothing can be escaped between backticks.
    if re.search("[<`]", text):
        return f"<code>{escape(text)}</code>"
    return f"`{text}`"
