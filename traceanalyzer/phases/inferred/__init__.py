"""Phases without ranges: launches in order, the forwards in them, and what recurs each cycle."""
