"""Small pure functions that read one call of an engine: CPU ints and lists, no tensor's data."""
