"""Acceptance that somebody else counted: logs of engines, metrics dumps, answers, records.

`log.read_acceptance` recognises the format by its content; each format is a module.
"""
