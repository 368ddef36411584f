"""Geometries in filters: columns of GeoArrow, constants as text or WKB, and functions of both.

layouts      which columns are geometries, and where their coordinates are
nesting      refuses collections that are nested too deeply to be parsed
shapes       geometries ──▶ shapes of the package shapely (`pilum[geo]`)
bounds       the bounding box of each geometry
relations    st_intersects, st_within, …: true or false for two geometries
measures     constructors such as st_point, and numbers such as st_area

Source: docs/format/filters.md, "Geometries".
"""
