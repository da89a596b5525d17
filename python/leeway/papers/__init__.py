"""The experiments of the literature, a module for each paper.

Importing this package registers them; `leeway.lab.experiments` lists them.
"""

from leeway.papers import rossi2010  # noqa: F401  # isort: skip
from leeway.papers import kuhn2013  # noqa: F401  # isort: skip
from leeway.papers import trang2014  # noqa: F401  # isort: skip
from leeway.papers import differences_rossi  # noqa: F401  # isort: skip
from leeway.papers import differences_kuhn  # noqa: F401  # isort: skip
