#!/usr/bin/env python3
"""Writes docs/api.md: every public name with its signature and its docstring.

Whatever a module lists in `__all__` is public, and of classes what has no underscore in front. A
test holds the page up to date.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["PAGE", "page"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "api.md"
MODULES = (
    "pilum",
    "pilum.file",
    "pilum.fragment",
    "pilum.commit",
    "pilum.indices",
    "pilum.query",
    "pilum.vector",
    "pilum.sampler",
    "pilum.training",
    "pilum.namespace",
    "pilum.progress",
    "pilum.schema",
    "pilum.tracing",
    "pilum.errors",
)
HEAD = """# API reference

Names and arguments follow pylance, so that `import pilum as lance` works. `make api`
writes this page from the docstrings.
"""
_WIDTH = 88
_SECTIONS = {
    "Args": "Arguments",
    "Returns": "Returns",
    "Yields": "Yields",
    "Raises": "Raises",
    "Attributes": "Attributes",
}


def page() -> str:
    """The page."""
    parts = [HEAD]
    for name in MODULES:
        module = importlib.import_module(name)
        parts.append(f"## {name}\n\n{_first_line(module)}\n")
        parts.extend(_members(name, module))
    return "\n".join(parts)


def _members(name: str, module: Any) -> Iterator[str]:
    for public in sorted(module.__all__, key=str.lower):
        thing = getattr(module, public)
        if inspect.isclass(thing):
            yield from _class(f"{name}.{public}", thing)
        elif callable(thing):
            yield _entry("###", f"{name}.{public}", _signature(public, thing), thing)


def _class(name: str, kind: type) -> Iterator[str]:
    shows = issubclass(kind, BaseException) or not callable(getattr(kind, "__init__", None))
    yield _entry("###", name, "" if shows else _signature(kind.__name__, kind), kind)
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("pilum") or issubclass(kind, BaseException):
            continue
        for attribute, value in vars(base).items():
            if attribute.startswith("_") or getattr(kind, attribute) is None:
                continue
            if isinstance(value, property):
                yield _entry("####", f"{kind.__name__}.{attribute}", "", value.fget)
            elif inspect.isfunction(inspect.unwrap(getattr(value, "__func__", value))):
                function = getattr(value, "__func__", value)
                signature = _signature(attribute, function)
                yield _entry("####", f"{kind.__name__}.{attribute}", signature, function)


def _entry(level: str, name: str, signature: str, thing: Any) -> str:
    code = f"```python\n{signature}\n```\n\n" if signature else ""
    return f"{level} {name}\n\n{code}{_docstring(thing)}\n"


def _signature(name: str, thing: Any) -> str:
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    parameters = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    if inspect.isclass(thing):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    plain = str(signature.replace(parameters=parameters))
    text = f"{name}{_without_addresses(plain)}"
    if len(text) <= _WIDTH:
        return text
    inner = "\n".join(f"    {_without_addresses(line)}," for line in _lines(parameters))
    returns = signature.return_annotation
    arrow = "" if returns is inspect.Signature.empty else f" -> {_annotation(returns)}"
    return f"{name}(\n{inner}\n){arrow}"


def _lines(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for parameter in parameters:
        starred = starred or parameter.kind is inspect.Parameter.VAR_POSITIONAL
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield str(parameter)


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "Any")


def _without_addresses(text: str) -> str:
    """Defaults that print their address or all of their members are left out."""
    text = re.sub(r"<[\w.]+ object at 0x[0-9a-f]+>", "...", text)
    return re.sub(r" = [A-Z]\w+\(.*?\)(?=[,)]|$)", " = ...", text).replace("'", "")


def _docstring(thing: Any) -> str:
    """Google style as Markdown: sections become headings in bold with a list."""
    text = inspect.getdoc(thing) or ""
    lines: list[str] = []
    in_section = False
    for line in text.splitlines():
        section = re.fullmatch(rf"({'|'.join(_SECTIONS)}):", line)
        item = re.match(r"    (\*{0,2}[\w.]+): (.*)", line)
        if section:
            in_section = True
            lines += [f"**{_SECTIONS[section[1]]}**", ""]
        elif in_section and item:
            lines.append(f"- `{item[1]}`: {item[2]}")
        elif in_section and line.startswith("    "):
            is_item = lines[-1].startswith(("-", " "))
            lines.append(f"  {line.strip()}" if is_item else line.strip())
        else:
            in_section = in_section and not line
            lines.append(line)
    return "\n".join(lines)


def _first_line(module: Any) -> str:
    return (inspect.getdoc(module) or "").partition("\n")[0]


if __name__ == "__main__":
    PAGE.write_text(page())
