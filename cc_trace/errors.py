"""All errors of this package. The command line handles them; a worker writes them to its log.

CcTraceError        the command line prints it as one line and exits with 2
├── AmbiguousError  what a user typed could mean several sessions
├── ConfigError     a setting that is missing or wrong
├── InstallError    the hook could not be registered or removed
├── JsonTextError   a settings file that is not JSON, or cannot be edited without changing more than our hooks
├── NotFoundError   a path or session id that leads to no transcript
└── StateError      a state folder that cannot be used, or a name that would lead out of it

A malformed, torn or unknown line is not an error: it is counted and skipped.
"""


class CcTraceError(Exception):
    """Something the user can fix. The message says what was attempted and what to do."""


class NotFoundError(CcTraceError):
    """No transcript at this path, or under this session id."""


class AmbiguousError(CcTraceError):
    """What a user typed could mean several sessions. No NotFoundError, after which another place is looked at."""


class ConfigError(CcTraceError):
    """A setting is missing or wrong."""


class StateError(CcTraceError):
    """The state folder cannot be used, or a name would lead out of it."""


class InstallError(CcTraceError):
    """The hook could not be registered or removed; the message says why and what to do."""


class JsonTextError(CcTraceError):
    """A settings file is not JSON, or cannot be edited without changing more than our hooks; the message says where."""
