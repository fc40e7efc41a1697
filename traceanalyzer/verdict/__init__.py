"""From reports to answers: does speculation win, against what, why, and what changed."""
