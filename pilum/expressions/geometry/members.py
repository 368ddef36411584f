"""Leave out the empty members of collections, which GEOS may not survive when it compares shapes.

    GEOMETRYCOLLECTION (POINT EMPTY, POINT (1 1))   ──▶   GEOMETRYCOLLECTION (POINT (1 1))

They have no points, so that no relation and no distance depends on them.
"""

from __future__ import annotations

import numpy as np

from pilum.errors import FilterError
from pilum.expressions.geometry.shapes import Shapes, import_shapely

__all__ = ["without_empty_members"]

_MAKERS = {
    "MULTIPOINT": "multipoints",
    "MULTILINESTRING": "multilinestrings",
    "MULTIPOLYGON": "multipolygons",
    "GEOMETRYCOLLECTION": "geometrycollections",
}
"""The functions of shapely that make collections, by the names of their types."""


def without_empty_members(shapes: Shapes) -> Shapes:
    """Return shapes without the empty members of collections, at any depth.

    Raises:
        FilterError: If collections are nested too deeply.
    """
    try:
        return _without_empty(shapes)
    except RecursionError:
        raise FilterError("a geometry of too many nested collections") from None


def _without_empty(shapes: Shapes) -> Shapes:
    shapely = import_shapely()
    kinds, found = shapely.get_type_id(shapes), shapes
    if not (kinds >= shapely.GeometryType.MULTIPOINT).any():  # the first collection, for GEOS
        return found
    for name, make in _MAKERS.items():
        places = np.flatnonzero(kinds == shapely.GeometryType[name])
        if not len(places):
            continue
        parts, owners = shapely.get_parts(shapes[places], return_index=True)
        members = _without_empty(parts) if name == "GEOMETRYCOLLECTION" else parts
        is_kept = ~shapely.is_empty(members)
        if members is parts and is_kept.all():
            continue
        made = np.full(len(places), shapely.from_wkt(f"{name} EMPTY"), np.object_)
        getattr(shapely, make)(members[is_kept], indices=owners[is_kept], out=made)
        if found is shapes:
            found = shapes.copy()
        found[places] = made
    return found
