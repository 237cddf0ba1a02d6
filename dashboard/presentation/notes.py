"""Render Markdown notes to safe HTML: without raw HTML, and sanitized afterwards."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import nh3
import pygments
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

BELOW = 2
"""Levels that a note's headings are lowered by, to be below those of the page and its panels."""
ALIGNED = {"text-align:right": "r", "text-align:center": "mid"}
"""Classes of table cells, since the page's policy forbids inline styles."""
LANGUAGES = {
    *("python", "py", "cpp", "c++", "c", "cuda", "rust", "llvm", "mlir", "asm", "json", "yaml", "toml", "ini", "diff"),
    *("bash", "sh", "shell", "sql", "cmake", "docker", "javascript", "xml"),
}
"""Languages with syntax highlighting. Others aren't safe: some lexers (`console`) can take minutes for a single token."""
LONGEST_WORD = 2000
"""Longest word for which links are detected, which takes quadratic time."""
TEXT = ("a", "br", "code", "em", "s", "span", "strong")
PARTS = (
    *("blockquote", "div", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"),
    *("table", "tbody", "td", "th", "thead", "tr"),
)
KINDS = ("note", "tip", "important", "warning", "caution")
SANITISER = nh3.Cleaner(
    tags={*TEXT, *PARTS, "input"},
    attributes={"a": {"href", "title"}, "ol": {"start"}, "input": {"checked"}},
    tag_attribute_values={"input": {"type": {"checkbox"}}},
    set_tag_attribute_values={"input": {"disabled": "", "aria-label": "To do"}},
    allowed_classes={
        "span": {name for name in STANDARD_TYPES.values() if name},
        **{tag: {*ALIGNED.values()} for tag in ("th", "td")},
        "li": {"task-list-item"},
        "div": {"markdown-alert", *(f"markdown-alert-{kind}" for kind in KINDS)},
        "p": {"markdown-alert-title"},
    },
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener nofollow",
)
HIGHLIGHTING_S = 0.2
"""CPU time for highlighting all code of a note; what remains then stays plain. Some lexers take quadratic time for crafted code."""
_alone = threading.Lock()
"""The link detection isn't thread-safe."""


class _Rendering:
    left_s = 0.0
    """CPU time left for highlighting; set under the lock."""


_rendering = _Rendering()


class _TooSlow(Exception):
    pass


@lru_cache(maxsize=32)
def html(text: str) -> SafeString:
    finds_links = all(len(word) <= LONGEST_WORD for word in text.split())
    with _alone:
        _rendering.left_s = HIGHLIGHTING_S
        rendered = _parser(finds_links).render(text)
    return mark_safe(SANITISER.clean(rendered))  # noqa: S308 - it is sanitized


@lru_cache(maxsize=2)
def _parser(finds_links: bool) -> MarkdownIt:  # noqa: FBT001 - the cache's key
    parser = MarkdownIt("gfm-like2", {"html": False, "linkify": finds_links, "highlight": _coloured})
    assert parser.linkify is not None
    # Only full URLs become links: `conv2d.py` is not a site in Paraguay.
    parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
    parser.add_render_rule("image", _image)
    parser.core.ruler.push("fit_in", _fit_in)
    return parser


def _coloured(code: str, language: str, _attributes: str) -> str:
    """The highlighted code; empty if it stays plain."""
    if language.lower() not in LANGUAGES:
        return ""
    try:
        lexer = get_lexer_by_name(language.lower())
        coloured: str = pygments.format(_in_time(lexer.get_tokens(code)), HtmlFormatter(nowrap=True))
    except (ClassNotFound, _TooSlow):
        return ""
    return coloured


def _in_time(tokens: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """The tokens, without what loading their lexer took. Raises `_TooSlow`."""
    started = time.thread_time()
    left_s = _rendering.left_s
    for token in tokens:
        _rendering.left_s = left_s - (time.thread_time() - started)
        if _rendering.left_s < 0:
            raise _TooSlow
        yield token


def _image(renderer: RendererHTML, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
    """A link instead, since the page loads nothing from other sites."""
    token = tokens[at]
    address = str(token.attrs.get("src", ""))
    words = renderer.renderInlineAsText(token.children or [], options, env)
    return format_html('<a href="{}">{}</a>', address, words or address)


def _fit_in(state: StateCore) -> None:
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + BELOW, 6)}"
        elif style := token.attrs.pop("style", None):
            token.attrs["class"] = ALIGNED.get(str(style), "")
