"""Prompts and answers as Markdown.

Rule: raw HTML is text, an image is named and never fetched, a link leads to http, https or mail and says where.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from cc_trace.escapes import escaped
from cc_trace.view.code import coloured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.renderer import RendererHTML
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict

_MAX_CHARS: Final = 60_000
_LINK: Final = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)


def to_html(text: str) -> Markup:
    """Return a text as HTML. A very long one is shown as it is."""
    safe = escaped(text)
    if len(safe) > _MAX_CHARS:
        return Markup('<pre class="plain">{}</pre>').format(safe)
    return Markup(_parser().render(safe))  # noqa: S704  (html is off; the rules below escape what they put in)


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: _LINK.match(url) is not None  # type: ignore[method-assign]
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("fence", _fence)
    return parser


def _image(self: RendererHTML, tokens: Sequence[Token], index: int, _options: OptionsDict, _env: EnvType) -> str:
    token = tokens[index]
    alt = self.renderInlineAsText(token.children or [], _options, _env)
    return f'<span class="image-name">image: {escape(alt)} {escape(token.attrGet("src") or "")}</span>'


def _link(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    token = tokens[index]
    token.attrSet("rel", "noopener noreferrer nofollow")
    token.attrSet("target", "_blank")
    token.attrSet("title", str(token.attrGet("href")))
    return self.renderToken(tokens, index, options, env)


def _fence(_self: RendererHTML, tokens: Sequence[Token], index: int, *_rest: Any) -> str:  # noqa: ANN401
    token = tokens[index]
    language = token.info.split(maxsplit=1)[0] if token.info.strip() else None
    return f'<pre class="code"><code>{coloured(token.content.rstrip(chr(10)), language=language)}</code></pre>\n'
