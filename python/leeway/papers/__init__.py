"""The experiments of the literature, a module for each paper.

Importing this package registers them; `leeway.lab.experiments` lists them.
"""

from leeway.papers import komnios2014  # noqa: F401  # isort: skip
from leeway.papers import scoreboard  # noqa: F401  # isort: skip
