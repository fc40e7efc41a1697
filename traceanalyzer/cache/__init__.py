"""What earlier runs found, kept in the user's cache folder: exports, tables, measurements.

A kept thing is complete or not there at all, whoever runs at the same time. It is found by all
that it depends on, so it never has to be invalidated; the longest unused ones make room. Only
tables and JSON are kept: reading one back runs nothing.
"""
