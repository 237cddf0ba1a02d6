"""Render Markdown notes to safe HTML: without raw HTML, and sanitized afterwards.

A text has a budget of CPU time. One that exceeds it is shown as it was written.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import lru_cache, wraps
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
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES
from pygments.util import ClassNotFound

BELOW = 2
"""Levels that a note's headings are lowered by, to be below those of the page and its panels."""
ALIGNED = {"text-align:right": "r", "text-align:center": "mid"}
"""Classes of table cells, since the page's policy forbids inline styles."""
LANGUAGES = {
    *("python", "py", "cpp", "c++", "c", "cuda", "rust", "llvm", "mlir", "asm", "json", "yaml", "toml", "diff"),
    *("bash", "sh", "shell", "sql", "cmake", "docker", "javascript", "xml"),
}
"""Languages with syntax highlighting. Others aren't safe: some lexers (`console`, `ini`) can take minutes for a single token."""
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
RENDERING_S = 0.5
"""CPU time for a text, besides loading lexers. The longest that people write (64 KiB) take 0.1 s."""
HIGHLIGHTING_S = 0.2
"""CPU time for highlighting all code of a note; what remains then stays plain. Some lexers take quadratic time for crafted code."""
CHECKED = 16
"""Calls of rules for each look at the clock, which takes longer than most rules."""
KEPT = 64
"""Texts whose HTML is kept. The longest HTML has less than 1 MB."""


class _TooSlow(Exception):
    pass


class _Renderings:
    """HTML of the latest texts. Callers that ask for the same text at once wait for one rendering, and for no other's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[bytes, Future[SafeString]] = OrderedDict()

    def html(self, text: str) -> SafeString:
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        with self._lock:
            is_new = key not in self._kept
            future = self._kept.setdefault(key, Future())
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        if is_new:
            self._render(text, key, future)
        return future.result()

    def _render(self, text: str, key: bytes, future: Future[SafeString]) -> None:
        try:
            future.set_result(_Rendering(text).html())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it, this caller too
            with self._lock:
                self._kept.pop(key, None)
            future.set_exception(error)


_renderings = _Renderings()


def html(text: str) -> SafeString:
    return _renderings.html(text)


class _Rendering:
    """The way of one text to HTML. It has its own parser, which costs a millisecond: link detection isn't thread-safe."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.until = time.thread_time() + RENDERING_S
        self.highlighting_s = HIGHLIGHTING_S
        self.checks = 0

    def html(self) -> SafeString:
        """Formatted, or as the plain text if that takes too long."""
        try:
            rendered = self._parser().render(self.text)
        except _TooSlow:
            return format_html("<pre>{}</pre>", self.text)
        return mark_safe(SANITISER.clean(rendered))  # noqa: S308 - it is sanitized

    def check(self) -> None:
        """Raises `_TooSlow`, at every `CHECKED`th call."""
        self.checks += 1
        if self.checks % CHECKED == 0 and time.thread_time() > self.until:
            raise _TooSlow

    def _parser(self) -> MarkdownIt:
        finds_links = all(len(word) <= LONGEST_WORD for word in self.text.split())
        options = {"html": False, "linkify": finds_links, "highlight": self._colored}
        parser = MarkdownIt("gfm-like2", options)
        assert parser.linkify is not None
        # Only full URLs become links: `conv2d.py` is not a site in Paraguay.
        parser.linkify.set({"fuzzy_link": False, "fuzzy_email": False})
        parser.renderer = _Renderer(self.check)
        parser.core.ruler.push("fit_in", _fit_in)
        for ruler in (parser.core.ruler, parser.block.ruler, parser.inline.ruler, parser.inline.ruler2):
            for rule in ruler.__rules__:  # There is no public way to a rule's function.
                ruler.at(rule.name, _checked(rule.fn, self.check), {"alt": rule.alt})
        return parser

    def _colored(self, code: str, language: str, _attributes: str) -> str:
        """The highlighted code; empty if it stays plain."""
        if language.lower() not in LANGUAGES or self.highlighting_s < 0:
            return ""
        try:
            tokens = self._in_time(self._lexer(language.lower()).get_tokens(code))
            colored: str = pygments.format(tokens, HtmlFormatter(nowrap=True))
        except (ClassNotFound, _TooSlow):
            return ""
        return colored

    def _lexer(self, language: str) -> Lexer:
        started = time.thread_time()
        _load(language)
        self.until += time.thread_time() - started
        return get_lexer_by_name(language)

    def _in_time(self, tokens: Iterator[tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
        """Yield tokens within the CPU time for highlighting. Raises `_TooSlow`."""
        started = time.thread_time()
        left_s = self.highlighting_s
        for token in tokens:
            self.highlighting_s = left_s - (time.thread_time() - started)
            if self.highlighting_s < 0:
                raise _TooSlow
            yield token


@lru_cache(maxsize=len(LANGUAGES))
def _load(language: str) -> None:
    """Load the lexer: its module, and its expressions when it is made for the first time."""
    get_lexer_by_name(language)


def _checked(rule: Callable[..., Any], check: Callable[[], None]) -> Callable[..., Any]:
    @wraps(rule)
    def checked(*arguments: Any) -> Any:
        check()
        return rule(*arguments)

    return checked


class _Renderer(RendererHTML):
    def __init__(self, check: Callable[[], None]) -> None:
        super().__init__()
        self._check = check

    def renderToken(  # noqa: N802 - markdown-it's name
        self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType
    ) -> str:
        self._check()
        return super().renderToken(tokens, idx, options, env)

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        """A link instead, since the page loads nothing from other sites."""
        token = tokens[idx]
        address = str(token.attrs.get("src", ""))
        words = self.renderInlineAsText(token.children or [], options, env)
        return format_html('<a href="{}">{}</a>', address, words or address)


def _fit_in(state: StateCore) -> None:
    for token in state.tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1]) + BELOW, 6)}"
        elif style := token.attrs.pop("style", None):
            token.attrs["class"] = ALIGNED.get(str(style), "")
