"""R-trees: the rows whose geometries have a bounding box that overlaps another box.

hilbert    the order of boxes, in which those that are close together follow each other
levels     how many rows and pages each level of a tree has
writing    boxes and rows ──▶ the files of a segment
index      an open segment: box ──▶ pages of each level ──▶ rows
rtree      the index type, and the bytes of its files
"""
