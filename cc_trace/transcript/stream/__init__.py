"""What `claude -p` prints becomes a transcript.

`--output-format stream-json` and `json` tell of the same messages as a transcript, under the same ids. They are written
down here as the lines of a transcript, and whatever reads transcripts reads them.
"""

from cc_trace.transcript.stream.convert import StreamTranscript, convert_stream
from cc_trace.transcript.stream.messages import Messages, read_messages
from cc_trace.transcript.stream.save import save_stream
from cc_trace.transcript.stream.sdk import sdk_message

__all__ = ["Messages", "StreamTranscript", "convert_stream", "read_messages", "save_stream", "sdk_message"]
