"""`python -m cc_trace` is the same as `cc-trace`."""

import sys

from cc_trace.cli import main

sys.exit(main())
