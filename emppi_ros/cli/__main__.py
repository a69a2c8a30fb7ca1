"""`python -m emppi_ros.cli` is the command `emppi`."""

import sys

from emppi_ros.cli import main

sys.exit(main())
