"""Full-text indices.

    documents ──parameters, tokens──▶ tokens with positions ──▶ posting lists, by token

Source: docs/format/text-analysis.md.
"""
