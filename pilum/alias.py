"""The alias `lance`: other packages' `import lance` gets this package.

    import lance.file ──▶ in sys.modules? ──▶ else the finder ──▶ pilum.file, the same module

It is opt-in: nothing happens before `install_as_lance` is called, or an interpreter starts with
`PILUM_AS_LANCE=1` and then imports `pilum`. A `lance` that is imported already is never replaced.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

from pilum.errors import InvalidInputError

__all__ = ["VARIABLE", "install_as_lance", "install_if_asked"]

VARIABLE = "PILUM_AS_LANCE"
"""The environment variable that installs the alias; "0" and "" are the same as none."""
_OURS, _ALIAS = "pilum", "lance"


class _Finder(MetaPathFinder, Loader):
    """Finds `lance` and its submodules in this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _ALIAS and not fullname.startswith(f"{_ALIAS}."):
            return None
        found = find_spec(_name_here(fullname))
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return ModuleSpec(fullname, self, origin=found.origin, is_package=is_package)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_name_here(spec.name))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The machinery of imports has given the module the spec of the alias.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def _name_here(fullname: str) -> str:
    return _OURS + fullname.removeprefix(_ALIAS)


_FINDER = _Finder()


def install_as_lance() -> None:
    """Let `import lance`, in any package, import this one in this process.

    Call it before other packages import `lance`. A second call does nothing. Processes that are
    started later need a call of their own, or the environment variable `PILUM_AS_LANCE=1`.

    Raises:
        InvalidInputError: If another `lance` is imported already.
    """
    imported = sys.modules.get(_ALIAS)
    if imported is not None and imported is not sys.modules[_OURS]:
        raise InvalidInputError(
            f"another package is imported as lance already: {getattr(imported, '__file__', '')}; "
            "call pilum.install_as_lance() before the first `import lance`"
        )
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    # What is imported already needs no finder, which would bind `lance.dataset` to the module.
    for name, module in tuple(sys.modules.items()):
        if name == _OURS or name.startswith(f"{_OURS}."):
            sys.modules[_ALIAS + name.removeprefix(_OURS)] = module


def install_if_asked() -> None:
    """Call `install_as_lance` if the environment variable `PILUM_AS_LANCE` requests it."""
    if os.environ.get(VARIABLE, "0") not in {"", "0"} and _ALIAS not in sys.modules:
        install_as_lance()
