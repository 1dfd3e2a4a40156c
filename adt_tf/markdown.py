"""Texts of others in Markdown, without effect as HTML or as Markdown."""

from __future__ import annotations

import re

_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def escape(value: object) -> str:
    r"""Makes any text harmless in Markdown, in tables too.

    Underscores inside words, as in adt_exp, mean nothing and stay.

    >>> print(escape("<b> *a* adt_exp _b_ [x](y) |"))
    &lt;b&gt; \*a\* adt_exp \_b\_ \[x\](y) \|
    """
    text = " ".join(str(value).split())
    text = re.sub(r"[\\`*\[\]|#]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)
    # An ampersand alone, as in C&W, means nothing either.
    return re.sub(r"[<>]|&(?=#?\w+;)", lambda match: _ENTITIES[match[0]], text)


def code(value: object) -> str:
    r"""Sets a text in type of fixed width.

    >>> print(code("adt_exp"), code("<b>`"))
    `adt_exp` <code>&lt;b&gt;\`</code>
    """
    text = " ".join(str(value).split())
    # Between backticks nothing can be escaped.
    if re.search("[<`]", text):
        return f"<code>{escape(text)}</code>"
    return f"`{text}`"
