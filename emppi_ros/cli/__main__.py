"""Run the command `emppi` as `python -m emppi_ros.cli`."""

import sys

from emppi_ros.cli import main

sys.exit(main())
