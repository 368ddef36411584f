"""Pictures of files and tables: models of plain values, drawn for terminals and for pages.

    PageMap    the pages of each column of a file, to scale     page_map_text.py  page_map_svg.py
    History    the rows of each version, and what changed       history_text.py   history_svg.py
    LineChart  curves                                line_chart.py draws both
    html.py    facts and pictures as HTML for notebooks

A model stores what is drawn and nothing about colours or widths; both renderers of a model take
these from `theme.py`. Nothing here reads a table.
"""
