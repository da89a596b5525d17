"""The scoreboard: every law beside every kind of primary traffic, over the networks of all papers.

`rows` has the laws, `networks` the networks, `measure` the runs, `score` the numbers, `board` the
tables and pictures. docs/scoreboard.md explains each column.
"""

from leeway.papers.scoreboard import board  # noqa: F401
