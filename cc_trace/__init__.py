"""cc-trace: Claude Code's transcripts as traces.

Data flows in one direction, a module per station:
transcript (bytes) -> entries (lines) -> turns -> agents -> spans -> cli.
"""

__version__ = "0.1.0"
