"""The commands, and what each is for. Nothing is imported here: `cc-trace --help` needs no more than this."""

COMMANDS = {
    "install": "register the hook with Claude Code and test it",
    "uninstall": "remove the hook and everything install added",
    "doctor": "check the whole setup and send a test span to each destination",
    "config": "show the settings and where each one comes from, or change them",
    "show": "print a session as a tree, or as JSON spans",
    "sessions": "list the sessions on this machine, newest first",
    "usage": "sum up tokens, cost, requests and errors by day, project, model, agent, tool or session",
    "search": "search the text of all sessions",
    "export": "write a session to a file: HTML, JSON, or a Perfetto trace",
    "view": "browse the sessions on this machine in your browser",
    "preview": "print exactly what would be sent for a session",
    "report": "summarise a run and fail the job if it exceeds a limit",
    "status": "show what has been delivered, what is pending, and why",
    "sync": "deliver pending turns now",
    "backfill": "deliver past sessions",
    "run": "run `claude -p` and deliver the run from its output",
    "ingest": "deliver a run from saved or piped `claude -p` output",
    "completion": "print the completion script for bash, zsh or fish",
}


def overview() -> str:
    """Return what `cc-trace --help` prints."""
    lines = [f"  {name:<10}  {description}" for name, description in COMMANDS.items()]
    return "\n".join(
        [
            "usage: cc-trace [--help] [--version] COMMAND ...",
            "",
            "Trace Claude Code sessions.",
            "",
            *lines,
            "",
            "Run `cc-trace COMMAND --help` for the options of a command.",
            "",
        ]
    )
