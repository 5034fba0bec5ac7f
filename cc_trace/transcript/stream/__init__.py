"""Converts the output of `claude -p` to a transcript.

`--output-format stream-json` and `json` have the same messages as a transcript, with the same ids. Here they become
the lines of a transcript, which the rest of the code reads like any other.
"""

from cc_trace.transcript.stream.convert import StreamTranscript, convert_stream
from cc_trace.transcript.stream.messages import Messages, read_messages
from cc_trace.transcript.stream.save import save_stream
from cc_trace.transcript.stream.sdk import sdk_message

__all__ = ["Messages", "StreamTranscript", "convert_stream", "read_messages", "save_stream", "sdk_message"]
