"""`python -m cc_trace` is the same as `cc-trace`."""

import os
import sys

from cc_trace.cli import main

code = main()
if "--spooled" in sys.argv:  # a hook's worker: all it had open is closed, and taking the interpreter down takes a while
    os._exit(code)
sys.exit(code)
