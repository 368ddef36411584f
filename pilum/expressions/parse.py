"""Parse the SQL of filters into nodes. Imports sqlglot, so it is imported with the first SQL.

The SQL is what users of the reference write: DataFusion's SQL with two differences:

    'text' "text"   both are strings; a quote inside is doubled, the backslash is plain
    `name`          a column whose name is not a word

Functions are kept as they are written: our table decides which ones exist, not sqlglot's. SQL that
the grammar of sqlglot accepts but filters do not have (subqueries, windows, CASE, ...) is rejected
by name: only the classes in the tables below are accepted, and of them only the arguments that are
listed. Source: docs/format/filters.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

from sqlglot import TokenType, exp, parser, tokens
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import SqlglotError

from pilum.errors import FilterError
from pilum.expressions.nodes import (
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Compare,
    Distinct,
    Expression,
    InList,
    IsNull,
    IsTruth,
    Like,
    Literal,
    LiteralValue,
    Negative,
    Not,
    Or,
)
from pilum.expressions.types import sql_type

__all__ = ["LanceFilter", "parse"]

_COMPARE: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

_ARITHMETIC: dict[type[exp.Expression], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}

_PREDICATES = {
    TokenType.EQ,
    TokenType.NEQ,
    TokenType.LT,
    TokenType.LTE,
    TokenType.GT,
    TokenType.GTE,
    TokenType.NULLSAFE_EQ,
    TokenType.IS,
    TokenType.IN,
    TokenType.LIKE,
    TokenType.ILIKE,
    TokenType.BETWEEN,
}

_ENDS = {TokenType.AND, TokenType.OR, TokenType.COMMA}
_QUOTED = {TokenType.IDENTIFIER, TokenType.STRING}
_MAX_EXACT_DIGITS = 15
_MAX_DIGITS = 400
"""More digits than any number of a column has."""
_MAX_SHOWN = 400
_TWO = frozenset({"this", "expression"})

_Converter = Callable[[exp.Expression], Expression]


class LanceFilter(Dialect):
    """The tokens and grammar of filters and of projected expressions."""

    class Tokenizer(tokens.Tokenizer):
        """A tokenizer with the quotes and backquotes of the dialect."""

        IDENTIFIERS = ["`"]
        QUOTES = ["'", '"']
        STRING_ESCAPES = ["'", '"']
        HEX_STRINGS = [("x'", "'"), ("X'", "'")]

    class Parser(parser.Parser):
        """A parser in which every function except the casts is an anonymous one."""

        FUNCTIONS = {}
        NO_PAREN_FUNCTIONS = {}
        FUNCTION_PARSERS = {
            name: parser.Parser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }


def parse(text: str, what: str = "filter") -> Expression:
    """Parse one SQL expression.

    Args:
        text: SQL such as "a > 1 AND s LIKE 'x%'".
        what: The role of the expression, for messages.

    Raises:
        FilterError: If the text does not parse or uses SQL that filters do not have.
    """
    dialect = LanceFilter()
    try:
        words = _with_member_names(dialect.tokenize(text))
        _check_parentheses(words, text)
        (tree,) = dialect.parser().parse_into(exp.Condition, words, text)
    except FilterError:
        raise
    except (SqlglotError, ValueError) as error:
        raise FilterError(f"cannot parse the {what} {_shown(text)}{_reason(error)}") from error
    except RecursionError as error:
        raise FilterError(f"the {what} {text[:100]!r}... is nested too deeply") from error
    if not isinstance(tree, exp.Expression):
        advice = "; pass None to read all rows" if what == "filter" else ""
        raise FilterError(f"the {what} is empty{advice}")
    try:
        return _convert(tree)
    except RecursionError as error:
        raise FilterError(f"the {what} {text[:100]!r}... is nested too deeply") from error


def _with_member_names(tokens: list[Any]) -> list[Any]:
    """Return the tokens with any word after a dot as a name: members may be called `in` or `is`."""
    for before, token in pairwise(tokens):
        is_word = token.token_type not in _QUOTED and token.text.isidentifier()
        if before.token_type is TokenType.DOT and is_word:
            token.token_type = TokenType.VAR
    return tokens


def _check_parentheses(tokens: Iterable[Any], text: str) -> None:
    """Reject chains such as `a = b IS NULL` and `a = b > c`, on which SQL engines disagree."""
    predicates = [0]
    for token in tokens:
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            predicates.append(0)
        elif kind is TokenType.R_PAREN and len(predicates) > 1:
            predicates.pop()
        elif kind in _ENDS:
            predicates[-1] = 0
        elif kind in _PREDICATES:
            predicates[-1] += 1
        if predicates[-1] > 1:
            raise FilterError(
                f"two comparisons in a row at {token.text!r} (column {token.col}); put one of them "
                f"in parentheses: {_shown(text)}"
            )


def _shown(text: str) -> str:
    """Return SQL for a message, without the end of a long one."""
    return repr(text) if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]!r}…"


def _reason(error: Exception) -> str:
    cause = error.__cause__ or error
    details = getattr(cause, "errors", None)
    if not details:
        return ""
    found = details[0]
    description = str(found.get("description"))
    if description.startswith("Required keyword"):  # names a class of the parser
        description = "an operand is missing"
    return f": {description} (line {found.get('line')}, column {found.get('col')})"


def _convert(tree: exp.Expression) -> Expression:
    entry = _CONVERTERS.get(type(tree))
    if entry is None:
        raise FilterError(f"filters have no {_name(tree)}: {_text(tree)}")
    convert, known = entry
    if extra := [key for key, value in tree.args.items() if value and key not in known]:
        raise FilterError(f"filters have no {_name(tree)} with {extra[0].upper()}: {_text(tree)}")
    return convert(tree)


def _name(tree: exp.Expression) -> str:
    return type(tree).__name__.upper()


def _text(tree: exp.Expression) -> str:
    try:
        return tree.sql()[:200]
    except SqlglotError:  # sqlglot parses more than it can generate
        return _name(tree)


def _connector(tree: exp.Expression) -> Expression:
    """Return a chain of AND (or OR) of any length as one node, without recursion along it."""
    make = And if isinstance(tree, exp.And) else Or
    return make(tuple(_convert(operand) for operand in _chain(tree, type(tree))))


def _chain(tree: exp.Expression, kind: type[exp.Expression]) -> Iterator[exp.Expression]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if type(node) is kind:
            waiting += [node.expression, node.this]
        else:
            yield node


def _compare(tree: exp.Expression) -> Expression:
    return Compare(_COMPARE[type(tree)], _convert(tree.this), _convert(tree.expression))


def _arithmetic(tree: exp.Expression) -> Expression:
    operator = _ARITHMETIC[type(tree)]
    return Arithmetic(operator, _convert(tree.this), _convert(tree.expression))


def _negative(tree: exp.Expression) -> Expression:
    operand = _convert(tree.this)
    if isinstance(operand, Literal) and isinstance(operand.value, Decimal):
        return Literal(operand.value.copy_negate())  # a minus rounds to 28 digits
    if isinstance(operand, Literal) and isinstance(operand.value, int | float):
        return Literal(-operand.value)
    return Negative(operand)


def _is(tree: exp.Expression) -> Expression:
    operand, what = _convert(tree.this), tree.expression
    if isinstance(what, exp.Null):
        return IsNull(operand)
    if isinstance(what, exp.Boolean):
        return IsTruth(operand, bool(what.this))
    raise FilterError(f"IS takes NULL, TRUE or FALSE: {_text(tree)}")


def _distinct(tree: exp.Expression) -> Expression:
    return Distinct(_convert(tree.this), _convert(tree.expression))


def _in(tree: exp.Expression) -> Expression:
    if not tree.expressions:
        raise FilterError(f"IN takes at least one value: {_text(tree)}")
    return InList(_convert(tree.this), tuple(_convert(item) for item in tree.expressions))


def _between(tree: exp.Expression) -> Expression:
    operand = _convert(tree.this)
    low, high = _convert(tree.args["low"]), _convert(tree.args["high"])
    return And((Compare(">=", operand, low), Compare("<=", operand, high)))


def _like(tree: exp.Expression) -> Expression:
    ignore_case = isinstance(tree, exp.ILike)
    like = Like(_convert(tree.this), _convert(tree.expression), ignore_case)
    return Not(like) if tree.args.get("negate") else like


def _escape(tree: exp.Expression) -> Expression:
    if tree.expression.this != "\\":
        raise FilterError(rf"the escape character of LIKE is always the backslash: {_text(tree)}")
    return _convert(tree.this)


def _literal(tree: exp.Expression) -> Expression:
    if tree.args.get("is_string"):
        return Literal(str(tree.this))
    return Literal(_number(str(tree.this)))


def _number(text: str) -> LiteralValue:
    """Return an integer, or a float unless its digits are more than a float can hold."""
    if len(text) > _MAX_DIGITS:
        raise FilterError(f"{_shown(text)} is a number of more than {_MAX_DIGITS} characters")
    if text.isdigit():
        return int(text)
    try:
        value = Decimal(text)
    except InvalidOperation as error:
        raise FilterError(f"{text!r} is not a number") from error
    plain = "e" not in text.lower()
    return value if plain and len(value.as_tuple().digits) > _MAX_EXACT_DIGITS else float(text)


def _binary(tree: exp.Expression) -> Expression:
    try:
        return Literal(bytes.fromhex(str(tree.this)))
    except ValueError as error:
        raise FilterError(f"X'{tree.this}' is not an even number of hex digits") from error


def _boolean(tree: exp.Expression) -> Expression:
    return Literal(bool(tree.this))


def _null(tree: exp.Expression) -> Expression:
    return Literal(None)


def _cast(tree: exp.Expression) -> Expression:
    target = tree.args["to"]
    parameters = tuple(_text(parameter) for parameter in target.expressions)
    return Cast(_convert(tree.this), sql_type(target.this.value, parameters))


def _call(tree: exp.Expression) -> Expression:
    arguments = tuple(_convert(argument) for argument in tree.expressions)
    return Call(str(tree.this).lower(), arguments)


def _concat(tree: exp.Expression) -> Expression:
    return Call("||", (_convert(tree.this), _convert(tree.expression)))


def _column(tree: exp.Expression) -> Expression:
    parts = [tree.args.get(part) for part in ("catalog", "db", "table", "this")]
    names = [part for part in parts if part is not None]
    if not all(isinstance(name, exp.Identifier) for name in names):
        raise FilterError(f"not a column: {_text(tree)}")
    return Column(tuple(name.name for name in names), bool(names[0].args.get("quoted")))


def _bracket(tree: exp.Expression) -> Expression:
    """Return the member for `parent['name']`, or the item for `list[1]`."""
    [key] = tree.expressions if len(tree.expressions) == 1 else [None]
    if key is None or isinstance(key, exp.Slice):
        raise FilterError(f"lists have no slices, only single items: {_text(tree)}")
    if isinstance(key, exp.Literal) and key.is_string:
        return _member(tree)
    return Call("array_element", (_convert(tree.this), _convert(key)))


def _array(tree: exp.Expression) -> Expression:
    return Call("make_array", tuple(_convert(item) for item in tree.expressions))


def _member(tree: exp.Expression) -> Expression:
    """Return the member for `parent.name` beyond four names, and for `parent['name']`."""
    parent = _convert(tree.this)
    key = tree.expressions[0] if isinstance(tree, exp.Bracket) else tree.expression
    text = isinstance(key, exp.Identifier) or (isinstance(key, exp.Literal) and key.is_string)
    if not (isinstance(parent, Column) and text):
        raise FilterError(f"only members of struct columns can be picked: {_text(tree)}")
    return Column((*parent.path, key.name), parent.quoted)


_CONVERTERS: dict[type[exp.Expression], tuple[_Converter, frozenset[str]]] = {
    **dict.fromkeys(_COMPARE, (_compare, _TWO)),
    **dict.fromkeys(_ARITHMETIC, (_arithmetic, _TWO | {"typed", "safe"})),
    exp.And: (_connector, _TWO),
    exp.Or: (_connector, _TWO),
    exp.Not: (lambda tree: Not(_convert(tree.this)), frozenset({"this"})),
    exp.Neg: (_negative, frozenset({"this"})),
    exp.Paren: (lambda tree: _convert(tree.this), frozenset({"this"})),
    exp.Is: (_is, _TWO),
    exp.NullSafeNEQ: (_distinct, _TWO),
    exp.NullSafeEQ: (lambda tree: Not(_distinct(tree)), _TWO),
    exp.In: (_in, frozenset({"this", "expressions"})),
    exp.Between: (_between, frozenset({"this", "low", "high"})),
    exp.Like: (_like, _TWO | {"negate"}),
    exp.ILike: (_like, _TWO | {"negate"}),
    exp.Escape: (_escape, _TWO),
    exp.Literal: (_literal, frozenset({"this", "is_string"})),
    exp.HexString: (_binary, frozenset({"this"})),
    exp.Boolean: (_boolean, frozenset({"this"})),
    exp.Null: (_null, frozenset()),
    exp.Cast: (_cast, frozenset({"this", "to", "_type"})),
    exp.Anonymous: (_call, frozenset({"this", "expressions"})),
    exp.DPipe: (_concat, _TWO | {"safe"}),
    exp.Column: (_column, frozenset({"this", "table", "db", "catalog"})),
    exp.Dot: (_member, _TWO),
    exp.Bracket: (_bracket, frozenset({"this", "expressions", "safe"})),
    exp.Array: (_array, frozenset({"expressions", "bracket_notation"})),
}
