"""Parses views' filters: SQL conditions over a record's key, headers, timestamp, offset and partition. Pure.

sqlglot parses the text, and only the constructs listed here are accepted. Importing sqlglot takes a third of a second, so
servers import this module at their first filter. The bounds on nesting are checked on the tokens, before parsing, because the
parser recurses at each parenthesis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from bmq.records.record_filter_layout import RecordFilter
from bmq.views import kernel_filters, predicates
from bmq.views.filter_error import InvalidFilter
from bmq.views.predicates import Number, Predicate, Test, Values

TOKENS_MAX: Final = 2_000
DEPTH_MAX: Final = 16
"""Deepest nesting of parentheses."""
PREFIXES_MAX: Final = 4
"""Most NOTs and minus signs in a row."""
LISTED_MAX: Final = 1_000
"""Most values of one IN."""
TAG_HEADERS: Final = ("bmq-tag", "TAGS")
"""The headers that the name `tag` reads; the second one is RocketMQ's."""

_NAMES: Final[Mapping[str, Values]] = {
    "key": predicates.key,
    "timestamp": predicates.timestamp,
    "offset": predicates.offset,
    "partition": predicates.partition,
    "tag": predicates.header(*TAG_HEADERS),
}
_NUMBERS: Final = (predicates.timestamp, predicates.offset, predicates.partition)
"""Names whose values are numbers."""
_PLACES: Final = frozenset(("key", "timestamp", "offset", "partition"))
"""Names that mean a field of the record, unless they are quoted; they are not headers."""
_RESERVED: Final = frozenset(("value", "topic"))
_FLIPPED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ORDERS: Final[Mapping[type[exp.Expression], str]] = {
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_TOKENS: Final = frozenset(
    (
        TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER, TokenType.L_PAREN, TokenType.R_PAREN,
        TokenType.COMMA, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE,
        TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IN, TokenType.IS, TokenType.NULL, TokenType.LIKE,
        TokenType.ILIKE, TokenType.ESCAPE, TokenType.BETWEEN, TokenType.RLIKE, TokenType.TRUE, TokenType.FALSE,
        TokenType.DASH, TokenType.TIMESTAMP, TokenType.OFFSET, TokenType.PARTITION,
    )
)  # fmt: skip
_ALLOWED: Final = "comparisons, BETWEEN, IN, LIKE, REGEXP, IS NULL, AND, OR, NOT"


class ParsedFilter(NamedTuple):
    """A parsed filter.

    `is_by_headers`: it reads no field but headers. `kernel_filter`: the same condition for the C kernel; None if the kernel
    cannot evaluate it.
    """

    predicate: Predicate
    is_by_headers: bool
    kernel_filter: RecordFilter | None


def parsed_filter(text: str) -> ParsedFilter:
    """The parsed form of a filter's text. Raises InvalidFilter, BadPattern."""
    _check_tokens(text)
    try:
        tree = sqlglot.parse_one(text)
    except SqlglotError as error:
        raise InvalidFilter(_sentence(error)) from error
    except RecursionError as error:
        raise InvalidFilter("the filter is nested too deep") from error
    builder = _Builder()
    predicate = builder.condition(tree)
    return ParsedFilter(predicate, builder.is_by_headers, builder.kernel_filters.get(predicate))


def _check_tokens(text: str) -> None:
    try:
        tokens: Sequence[Token] = sqlglot.tokenize(text)
    except SqlglotError as error:
        raise InvalidFilter(
            "the filter has a quote that is not closed, or a character that SQL does not know"
        ) from error
    if not tokens:
        raise InvalidFilter("the filter is empty")
    if len(tokens) > TOKENS_MAX:
        raise InvalidFilter(f"the filter has {len(tokens)} words and signs, {TOKENS_MAX} are allowed")
    depth = prefixes = 0
    for token in tokens:
        if token.token_type not in _TOKENS:
            raise InvalidFilter(
                f"the filter has {_shown(token.text)}, which is not part of a filter; a header of this name is written in "
                "double quotes"
            )
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        prefixes = prefixes + 1 if token.token_type in (TokenType.NOT, TokenType.DASH) else 0
        if depth > DEPTH_MAX:
            raise InvalidFilter(f"the filter has more than {DEPTH_MAX} parentheses inside each other")
        if prefixes > PREFIXES_MAX:
            raise InvalidFilter(f"the filter has more than {PREFIXES_MAX} NOTs or minus signs in a row")


def _sentence(error: SqlglotError) -> str:
    found = (getattr(error, "errors", None) or [{}])[0]
    where = f" at character {found['col']}" if found.get("col") else ""
    return f"the filter is not a condition of SQL{where}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "...")


class _Builder:
    """Turns a filter's syntax tree into a predicate. Methods raise InvalidFilter for constructs that filters do not have."""

    def __init__(self) -> None:
        self.is_by_headers = True
        self.kernel_filters: dict[Predicate, RecordFilter] = {}
        self._by_kind: Mapping[type[exp.Expression], Callable[[Any], Predicate]] = {
            exp.And: self._and,
            exp.Or: self._or,
            exp.Not: lambda node: predicates.negation(self.condition(_part(node, "this"))),
            exp.Paren: lambda node: self.condition(_part(node, "this")),
            exp.Boolean: self._boolean,
            exp.NEQ: lambda node: predicates.negation(self._comparison(node, "=")),
            exp.Between: self._between,
            exp.In: self._in,
            exp.Is: self._is,
            exp.Like: self._like,
            exp.ILike: self._like,
            exp.Escape: self._escape,
            exp.RegexpLike: self._regexp,
        }

    def condition(self, node: object) -> Predicate:
        order = _ORDERS.get(type(node))  # type: ignore[arg-type]
        if order is not None:
            return self._comparison(node, order)
        build = self._by_kind.get(type(node))  # type: ignore[arg-type]
        if build is None:
            if isinstance(node, exp.Column | exp.Literal | exp.Neg):
                raise InvalidFilter(f"{_sql(node)} alone is no condition: compare it with something")
            raise InvalidFilter(f"a filter has only {_ALLOWED}, and not {_sql(node)}")
        return build(node)

    def _and(self, node: Any) -> Predicate:
        parts = self._chain(node, exp.And)
        return self._known(predicates.all_of(parts), kernel_filters.combined(self._filters_of(parts), all))

    def _or(self, node: Any) -> Predicate:
        parts = self._chain(node, exp.Or)
        return self._known(predicates.one_of(parts), kernel_filters.combined(self._filters_of(parts), any))

    def _boolean(self, node: Any) -> Predicate:
        truth = bool(node.this)
        return self._known(predicates.constant(truth), kernel_filters.constant(truth))

    def _filters_of(self, parts: Sequence[Predicate]) -> list[RecordFilter | None]:
        return [self.kernel_filters.get(part) for part in parts]

    def _known(self, predicate: Predicate, kernel_filter: RecordFilter | None) -> Predicate:
        if kernel_filter is not None:
            self.kernel_filters[predicate] = kernel_filter
        return predicate

    def _chain(self, node: exp.Expression, kind: type[exp.Expression]) -> list[Predicate]:
        """The parts of `a AND b AND c`, in order. The tree nests to the left, perhaps 1,000 deep, so it is walked in a loop."""
        parts: list[object] = []
        left: object = node
        while type(left) is kind:
            _require_parts(left, "this", "expression")
            parts.append(left.args["expression"])
            left = left.args["this"]
        parts.append(left)
        return [self.condition(part) for part in reversed(parts)]

    def _comparison(self, node: Any, order: str) -> Predicate:
        _require_parts(node, "this", "expression")
        left, right = node.args["this"], node.args["expression"]
        if not isinstance(left, exp.Column):
            left, right, order = right, left, _FLIPPED[order]
        values, literal = self._values(left), _literal(right)
        found = predicates.any_value(values, _ordered(values, order, literal))
        is_equal_text = order == "=" and isinstance(literal, str)
        return self._known(found, _listed(left, [str(literal)])) if is_equal_text else found

    def _between(self, node: Any) -> Predicate:
        _require_parts(node, "this", "low", "high")
        values = self._values(node.args["this"])
        low, high = _literal(node.args["low"]), _literal(node.args["high"])
        return predicates.any_value(values, predicates.both(_ordered(values, ">=", low), _ordered(values, "<=", high)))

    def _in(self, node: Any) -> Predicate:
        _require_parts(node, "this", "expressions")
        values, listed = self._values(node.args["this"]), node.args.get("expressions") or ()
        if not 0 < len(listed) <= LISTED_MAX:
            raise InvalidFilter(f"IN has {len(listed)} values, 1 to {LISTED_MAX} are allowed")
        literals = [_literal_for(values, _literal(one)) for one in listed]
        texts = [one for one in literals if isinstance(one, str)]
        numbers = [one for one in literals if not isinstance(one, str)]
        found = predicates.any_value(values, predicates.listed_test(texts, numbers))
        return found if numbers else self._known(found, _listed(node.args["this"], texts))

    def _is(self, node: Any) -> Predicate:
        _require_parts(node, "this", "expression")
        if not isinstance(node.args["expression"], exp.Null):
            raise InvalidFilter("IS is followed by NULL or NOT NULL")
        return predicates.is_null(self._values(node.args["this"]))

    def _like(self, node: Any, escape: str | None = None) -> Predicate:
        _require_parts(node, "this", "expression", "negate")
        test = predicates.like_test(
            _text(node.args["expression"]), escape, is_case_sensitive=isinstance(node, exp.Like)
        )
        found = predicates.any_value(self._texts(node.args["this"]), test)
        return predicates.negation(found) if node.args.get("negate") else found

    def _escape(self, node: Any) -> Predicate:
        _require_parts(node, "this", "expression")
        like, escape = node.args["this"], _text(node.args["expression"])
        if not isinstance(like, exp.Like | exp.ILike) or len(escape) != 1:
            raise InvalidFilter("ESCAPE stands behind LIKE, with one character")
        return self._like(like, escape)

    def _regexp(self, node: Any) -> Predicate:
        _require_parts(node, "this", "expression", "negate")
        test = predicates.pattern_test(_text(node.args["expression"]), is_whole=False)
        found = predicates.any_value(self._texts(node.args["this"]), test)
        return predicates.negation(found) if node.args.get("negate") else found

    def _texts(self, node: object) -> Values:
        values = self._values(node)
        if values in _NUMBERS:
            raise InvalidFilter(f"{_sql(node)} is a number, and patterns are for text")
        return values

    def _values(self, node: object) -> Values:
        """The values that a name reads from a record. A name in double quotes is always a header."""
        if not isinstance(node, exp.Column) or not isinstance(node.args.get("this"), exp.Identifier):
            raise InvalidFilter(f"a name is compared with a value, and {_sql(node)} is not a name")
        _require_parts(node, "this")
        name = str(node.this.this)
        if node.this.args.get("quoted"):
            return predicates.header(name)
        known = name.lower()
        if known in _RESERVED:
            raise InvalidFilter(
                f'a filter does not look at the {known} of a record; the header of this name is written "{name}"'
            )
        if known in _PLACES:
            self.is_by_headers = False
        return _NAMES.get(known) or predicates.header(name)


def _listed(node: Any, values: Sequence[str]) -> RecordFilter | None:
    """The kernel's condition that this name has one of these values; None if the name is a number's. `node` was checked."""
    name, known = str(node.this.this), str(node.this.this).lower()
    if node.this.args.get("quoted") or known not in _NAMES:
        return kernel_filters.listed((name,), values)
    if known == "tag":
        return kernel_filters.listed(TAG_HEADERS, values)
    return kernel_filters.listed((), values) if known == "key" else None


def _part(node: Any, name: str) -> object:
    _require_parts(node, name)
    return node.args[name]


def _require_parts(node: Any, *names: str) -> None:
    """Refuse a node with parts other than `names`, such as a subquery, a join or a unit. Raises InvalidFilter."""
    for name, found in node.args.items():
        if name not in names and found not in (None, False, []):
            raise InvalidFilter(f"a filter has only {_ALLOWED}, and not {_sql(node)}")


def _sql(node: object) -> str:
    try:
        return _shown(node.sql() if isinstance(node, exp.Expression) else str(node))
    except (SqlglotError, RecursionError, ValueError):
        return "this"


def _literal(node: object) -> str | Number:
    if isinstance(node, exp.Paren):
        node = _part(node, "this")
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -_number(str(node.this.this))
    if isinstance(node, exp.Column):
        raise InvalidFilter(f"{_sql(node)} is a name: text is written in single quotes")
    raise InvalidFilter(f"a name is compared with text or a number, and not with {_sql(node)}")


def _number(text: str) -> Number:
    number = predicates.number_of(text.encode())
    if number is None or not isfinite(number):
        raise InvalidFilter(f"{_shown(text)} is no number that can be compared")
    return number


def _text(node: object) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise InvalidFilter("a pattern is text in single quotes")
    return str(node.this)


def _literal_for(values: Values, literal: str | Number) -> str | Number:
    """The literal to compare `values` with: for a timestamp, text in ISO 8601 becomes milliseconds. Raises InvalidFilter."""
    if not isinstance(literal, str) or values not in _NUMBERS:
        return literal
    if values is not predicates.timestamp:
        raise InvalidFilter(f"{_shown(literal)} is text, and is compared with a number")
    try:
        moment = datetime.fromisoformat(literal)
    except ValueError as error:
        raise InvalidFilter(f"{_shown(literal)} is no time: write milliseconds, or 2026-11-29T12:00:00Z") from error
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def _ordered(values: Values, order: str, literal: str | Number) -> Test:
    literal = _literal_for(values, literal)
    if isinstance(literal, str):
        return predicates.text_test(order, literal)
    return predicates.number_test(order, literal)
