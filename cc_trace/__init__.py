"""cc-trace: Claude Code's transcripts as traces.

Data flows in one direction, through a room per step: transcript, turns, spans, privacy, export. Delivery ensures that
every span is sent exactly once. ARCHITECTURE.md has the plan.
"""

__version__ = "0.1.0"
