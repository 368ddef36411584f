"""Indices of near duplicates: the rows whose texts share most of their words with a query.

parameters    how texts become signatures, and what a manifest stores about it
signatures    texts ──▶ signatures and keys of their bands
writing       signatures ──▶ the files of a segment
index         an open segment: keys of a query ──▶ candidates ──▶ their distances
minhash_lsh   the index type, and the bytes of its files
"""
