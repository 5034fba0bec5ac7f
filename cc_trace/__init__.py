"""cc-trace: Claude Code's transcripts as traces.

Data flows in one direction, through a room per step: transcript, turns, spans, privacy, export. Delivery ensures that
every span is sent exactly once. ARCHITECTURE.md has the plan.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # the hook's interpreter passes here: nothing is imported that nobody asks for
if TYPE_CHECKING:
    from cc_trace.tracer import Tracer

__all__ = ["Tracer", "__version__"]


def __getattr__(name: str) -> object:
    """Import `Tracer` when it is asked for."""
    if name != "Tracer":
        message = f"module 'cc_trace' has no attribute {name!r}"
        raise AttributeError(message)
    from cc_trace.tracer import Tracer  # noqa: PLC0415  (see above)

    return Tracer
