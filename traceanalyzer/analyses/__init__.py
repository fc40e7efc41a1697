"""Pure functions from a phased trace to declared tables: they never print, draw or read files."""
