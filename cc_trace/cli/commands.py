"""The commands, and what each is for. Nothing is imported here: `cc-trace --help` needs no more than this."""

COMMANDS = {
    "install": "register the hook with Claude Code and try it out",
    "uninstall": "remove what install added",
    "doctor": "check everything, and prove that traces arrive",
    "config": "show the settings and where each comes from, or change them",
    "show": "show a session as a tree, or as spans in JSON",
    "sessions": "the sessions of this machine, the latest first",
    "usage": "tokens, cost, requests and errors by day, project, model, agent, tool or session",
    "search": "find a text in all sessions",
    "export": "write a session to one file: a page, JSON, or a trace for Perfetto",
    "view": "open the sessions of this machine in the browser",
    "preview": "print exactly what would be sent of a session",
    "report": "what a run came to, in figures, and gates for CI",
    "status": "what is delivered, what is pending and why",
    "sync": "deliver pending turns now",
    "backfill": "deliver the history of this machine",
    "run": "run `claude -p` and deliver the run from what it prints",
    "ingest": "deliver a run from what `claude -p` printed",
    "completion": "print a script that completes commands in bash, zsh or fish",
}


def overview() -> str:
    """Return what `cc-trace --help` prints."""
    lines = [f"  {name:<10}  {about}" for name, about in COMMANDS.items()]
    return "\n".join(
        [
            "usage: cc-trace [--help] [--version] COMMAND ...",
            "",
            "Claude Code's sessions as exact traces.",
            "",
            *lines,
            "",
            "`cc-trace COMMAND --help` describes its options.",
            "",
        ]
    )
