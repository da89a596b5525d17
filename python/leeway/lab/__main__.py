"""``python -m leeway.lab``."""

import sys

from leeway.lab.cli import main

sys.exit(main())
