"""Text of the bracket language -> Expr. Syntax only: names are checked by hami.plan.

Used by hami.parser and, through it, by everyone. Any text gives an Expr or a ConfigError that says where,
what was expected there, and what to do. Thread-safe; the grammar is compiled at the first call.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, Source, Span
from .expr import Argument, Expr, Value

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

MAX_NESTING = 200

_CLOSER = {"[": "]", "(": ")"}
_OPENER = {"]": "[", ")": "("}
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,4})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_PLACEHOLDER = re.compile(r"\{([^\W\d]\w*)\}")
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
_WORD = re.compile(r"[\w.:-]+|\S")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\", '"': '"', "'": "'", "/": "/"}

_EXPECTED = {
    "NAME": "a backend's name",
    "KEY": "a value",
    "STRING": "a value",
    "TEXT": "a value",
    "LPAR": "`(`",
    "LSQB": "`[`",
    "EQUAL": "`=`",
    "COMMA": "`,`",
    "RPAR": "`)`",
    "RSQB": "`]`",
    "$END": "the end of the text",
}


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    from lark import Lark

    path = os.path.join(os.path.dirname(__file__), "grammar.lark")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return Lark(text, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=False)


def parse_source(source: Source) -> Expr:
    """Parse the whole text of `source` as one expression. Raise ConfigError for any other text."""
    tree = _parse_tree(source)
    body: Any = tree.children[0]
    items = [item for phase in body.children for item in phase.children]
    if len(items) > 1:
        extra = _name_span(items[1], source)
        raise extra.error(
            "parse-several-expressions",
            f"expected one expression, got {len(items)}",
            "put them into a container, for example `S[A, B]`",
            with_column=True,
        )
    return _to_expr(items[0], source)


def _parse_tree(source: Source) -> Tree[Any]:
    from lark.exceptions import UnexpectedInput

    parser: Any = _grammar().parse_interactive(source.text)
    openers: list[int] = []
    last: Token | None = None
    try:
        for token in parser.lexer_thread.lex(parser.parser_state):
            parser.feed_token(token)
            last = token
            if token.type in ("LPAR", "LSQB"):
                openers.append(int(token.start_pos or 0))
                if len(openers) > MAX_NESTING:
                    raise Span(source, openers[-1], openers[-1] + 1).error(
                        "parse-nesting",
                        f"more than {MAX_NESTING} brackets inside each other",
                        "split the expression, for example with `hami.alias`",
                        with_column=True,
                    )
            elif token.type in ("RPAR", "RSQB"):
                openers.pop()
        tree: Tree[Any] = parser.feed_eof(last)
        return tree
    except UnexpectedInput as error:
        token = getattr(error, "token", None)
        is_end = token is not None and token.type == "$END"
        position: int | None = error.pos_in_stream
        offset = len(source.text) if is_end or position is None else position
        expected = parser.accepts()
    raise _syntax_error(source, offset, expected, openers, last)


def _syntax_error(
    source: Source, offset: int, expected: set[str], openers: list[int], last: Token | None
) -> ConfigError:
    """Word the error for the place where parsing stopped.

    `openers` are the offsets of the brackets open there, `last` the token before it.
    """
    text = source.text
    before = last.type if last is not None else ""
    choices = list(dict.fromkeys(_EXPECTED[name] for name in _EXPECTED if name in expected))
    if len(choices) > 1 and not {"NAME", "TEXT"}.isdisjoint(expected):
        choices = [choice for choice in choices if choice not in ("`(`", "`[`")]
    wanted = f"expected {' or '.join(choices)}" if choices else "nothing can follow here"

    def error(code: str, message: str, help: str, start: int = offset, end: int | None = None) -> ConfigError:
        span = Span(source, start, start + 1 if end is None else end)
        return span.error(code, message, help, with_column=True)

    if offset >= len(text):
        if openers:
            return _unclosed(source, openers[-1], "the end of the text")
        if last is None:
            return error(
                "parse-empty",
                "expected an expression, got an empty text",
                "write a backend's name: `Identity`",
                0,
            )
        return error(
            "parse-unexpected-end",
            f"the text ends here, {wanted}",
            "complete the expression, or remove the rest",
        )

    found = text[offset]
    word = _WORD.match(text, offset)
    end = word.end() if word else offset + 1
    if found in "\"'":
        if not _STRING.match(text, offset):
            return error(
                "parse-unclosed-quote",
                f"the quote {found} is never closed",
                f"add {found}, or quote the value with the other kind",
            )
        if not {"STRING"} & expected:
            return error(
                "parse-unexpected-quote",
                f"a quoted value must be a whole value, {wanted}",
                "put quotes around all of the value",
            )
    if found in _OPENER:
        if not openers:
            return error("parse-unopened-bracket", f"`{found}` closes nothing", "remove it")
        if text[openers[-1]] != _OPENER[found]:
            return _unclosed(source, openers[-1], f"`{found}`")
        if before == "LSQB":
            return error(
                "parse-empty-brackets",
                "nothing inside the brackets",
                "write a backend inside them, or remove them",
                openers[-1],
                end,
            )
        if before == "LPAR":
            return error(
                "parse-empty-prefix",
                "nothing inside the parentheses of a prefix",
                "write for example `(or)`, or remove them",
                openers[-1],
                end,
            )
    if found == "(" and before == "RSQB":
        return error(
            "parse-arguments-after-brackets",
            "arguments stand before the brackets",
            "write `A(x)[B]` instead of `A[B](x)`",
        )
    if found == "=":
        return error(
            "parse-unexpected-equals", f"unexpected `=`, {wanted}", 'quote a value that holds it: `key="a=b"`'
        )
    if before in ("NAME", "RSQB", "RPAR") and not openers and "$END" in expected:
        return error(
            "parse-after-end",
            f"text after the end of the expression: `{text[offset:end]}`",
            "remove it, or put both into a container, for example `S[A, B]`",
            offset,
            end,
        )
    if before in ("NAME", "RSQB", "RPAR") and found.isidentifier():
        return error(
            "parse-missing-comma",
            f"unexpected `{text[offset:end]}`, {wanted}",
            "separate the items by commas",
            offset,
            end,
        )
    if found in ",;])" and "NAME" in expected:
        return error(
            "parse-missing-backend",
            f"unexpected `{found}`, {wanted}",
            "write a backend, or remove the separator",
        )
    if found in ",)]" and "TEXT" in expected:
        return error(
            "parse-missing-value", f"unexpected `{found}`, {wanted}", 'quote a value that is empty: `""`'
        )
    help = "names are made of letters, digits and `_`, with `.` or `::` between their parts"
    return error("parse-unexpected", f"unexpected `{text[offset:end]}`, {wanted}", help, offset, end)


def _unclosed(source: Source, opener: int, before: str) -> ConfigError:
    bracket = source.text[opener]
    return Span(source, opener, opener + 1).error(
        "parse-unclosed-bracket",
        f"`{bracket}` is not closed before {before}",
        f"add `{_CLOSER[bracket]}`",
        with_column=True,
    )


def _name_span(item: Tree[Any], source: Source) -> Span:
    name: Any = item.children[-1].children[0]
    return Span(source, name.start_pos, name.end_pos)


def _to_expr(item: Tree[Any], source: Source) -> Expr:
    """Convert an `item` of the tree; one Python frame per level, so that MAX_NESTING is always reachable."""
    prefix: tuple[Argument, ...] = ()
    if len(item.children) == 2:
        prefix = _to_arguments(item.children[0], source)
    parts: Any = item.children[-1].children
    args: tuple[Argument, ...] = ()
    phases = []
    for part in parts[1:]:
        if part.data == "call":
            args = _to_arguments(part, source)
            continue
        for phase in part.children[0].children:
            children = []
            for child in phase.children:
                children.append(_to_expr(child, source))
            phases.append(tuple(children))
    return Expr(str(parts[0]), args, tuple(phases), prefix, span=_name_span(item, source))


def _to_arguments(tree: Any, source: Source) -> tuple[Argument, ...]:
    """Convert what is between parentheses: positionals first, no keyword twice."""
    arguments: list[Argument] = []
    seen: set[str] = set()
    nodes = tree.children[0].children if tree.children else ()
    for node in nodes:
        value = _to_value(node.children[-1].children[0], source)
        if len(node.children) == 1:
            if seen:
                assert value.span is not None
                raise value.span.error(
                    "parse-positional-after-keyword",
                    "a positional argument after a keyword argument",
                    "write the positional arguments first, or give this one its name",
                    with_column=True,
                )
            arguments.append(Argument(None, value, value.span))
            continue
        key = node.children[0]
        span = Span(source, key.start_pos, key.end_pos)
        if str(key) in seen:
            raise span.error(
                "parse-duplicate-keyword", f"`{key}` is given twice", "remove one of them", with_column=True
            )
        seen.add(str(key))
        arguments.append(Argument(str(key), value, span))
    return tuple(arguments)


def _to_value(node: Any, source: Source) -> Value:
    from lark import Token

    if isinstance(node, Token):
        span = Span(source, int(node.start_pos or 0), int(node.end_pos or 0))
        return Value("string", _unescape(str(node), span), str(node), span)
    span = Span(source, node.meta.start_pos, node.meta.end_pos)
    raw = source.text[span.start : span.end]
    placeholder = _PLACEHOLDER.fullmatch(raw)
    if placeholder:
        return Value("placeholder", placeholder[1], raw, span)
    if raw in ("true", "false"):
        return Value("bool", raw == "true", raw, span)
    if _NUMBER.fullmatch(raw):
        return Value("number", int(raw) if _INTEGER.fullmatch(raw) else float(raw), raw, span)
    return Value("text", raw, raw, span)


def _unescape(literal: str, span: Span) -> str:
    """Return the text that a quoted string stands for."""
    out, at = [], 1
    for match in _ESCAPE.finditer(literal, 1, len(literal) - 1):
        out.append(literal[at : match.start()])
        at = match.end()
        digits = match[1] or match[2] or match[3]
        if digits:
            number = int(digits, 16)
            if number > 0x10FFFF or 0xD800 <= number < 0xE000:
                raise _bad_escape(match, span, "is no character")
            out.append(chr(number))
        elif match[4] in _SIMPLE_ESCAPES:
            out.append(_SIMPLE_ESCAPES[match[4]])
        else:
            raise _bad_escape(match, span, "is no escape")
    out.append(literal[at:-1])
    return "".join(out)


def _bad_escape(match: re.Match[str], span: Span, what: str) -> ConfigError:
    place = Span(span.source, span.start + match.start(), span.start + match.end())
    return place.error(
        "parse-bad-escape",
        f"`{match[0]}` {what}",
        "write `\\\\` for a backslash, or leave the quotes out",
        with_column=True,
    )
