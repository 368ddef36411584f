"""Namespaces: tables that are listed, described, created and dropped by name.

`DirectoryNamespace` is a folder of tables. `RestNamespace` is the client of a server that has the
REST protocol of `lance_namespace`, and `RestAdapter` is such a server, for any namespace.
"""

from pilum.namespace.adapter import RestAdapter
from pilum.namespace.context import DynamicContextProvider
from pilum.namespace.directory import DirectoryNamespace
from pilum.namespace.rest import RestNamespace

__all__ = ["DirectoryNamespace", "DynamicContextProvider", "RestAdapter", "RestNamespace"]
