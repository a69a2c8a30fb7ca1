"""The fuzz tests share modules that are no tests: cases, and what is legal."""

import os
from pathlib import Path
import sys

os.environ['ROS_AUTOMATIC_DISCOVERY_RANGE'] = 'LOCALHOST'
sys.path.insert(0, str(Path(__file__).parent))
