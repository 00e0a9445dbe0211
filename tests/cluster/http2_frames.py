"""Frames of HTTP/2 written by hand, for clients that do what no library does."""

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4
CANCEL, ENHANCE_YOUR_CALM = 8, 11


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def head(path):
    """:method GET and :scheme http of the static table, :path and :authority as literals."""
    return b"\x82\x86\x04" + bytes((len(path),)) + path.encode() + b"\x01\x09localhost"


def get(stream, path):
    return frame(HEADERS, END_STREAM | END_HEADERS, stream, head(path))


def settings(**values):
    """settings(window=0): SETTINGS with that initial window of streams."""
    payload = struct.pack(">HI", INITIAL_WINDOW_SIZE, values["window"]) if "window" in values else b""
    return frame(SETTINGS, 0, 0, payload)


def split(data):
    """Kind and payload of the whole frames in `data`."""
    frames = []
    while len(data) >= 9:
        length = int.from_bytes(data[:3], "big")
        frames.append((data[3], data[9:9 + length]))
        data = data[9 + length:]
    return frames


def goaway_code(frames):
    """The error of the last GOAWAY, None: there is none."""
    codes = [int.from_bytes(payload[4:8], "big") for kind, payload in frames if kind == GOAWAY]
    return codes[-1] if codes else None
