"""Runs a command, and prints its status and what it took: seconds, CPU seconds, peak memory.

The peak of a process is never less than what the process that started it held. This one imports nothing that it need
not, so it holds less than any that is measured.
"""

import os
import sys
import time

began = time.perf_counter()
nowhere = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[nowhere])
_, status, usage = os.wait4(process, 0)
print(status, time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
