"""From the tables of the analyses to the Report: naming and nesting, no analysis."""
