"""The scoreboard: every law beside every kind of primary traffic, over the networks of all papers.

`rows` has the laws, a line each; `networks` the networks; `measure` what is simulated and read; `board` the table and
the pictures. docs/scoreboard.md says what each column means.
"""

from leeway.papers.scoreboard import board  # noqa: F401
