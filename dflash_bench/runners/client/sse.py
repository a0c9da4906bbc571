"""Server-sent events out of raw bytes: each stamped with the arrival of the bytes that completed it.

While a load runs, bytes are only stamped and kept; this is done with a request's bytes after it has ended, so that
parsing cannot make the client late. Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from collections.abc import Iterator, Sequence

Piece = tuple[float, bytes]
"""Bytes as they came off the connection, and when: seconds of the performance counter."""


def events(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the `data` of each event that `pieces` complete; comments and other fields say nothing to us.

    An event that the end of the stream cut off is not yielded: it never was whole.
    """
    data: list[bytes] = []
    rest = b""
    for at_s, piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                yield at_s, b"\n".join(data)
                data = []


def whole(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield a body that is no stream of events as one, stamped with the arrival of its last bytes."""
    if pieces:
        yield pieces[-1][0], b"".join(piece for _, piece in pieces)
