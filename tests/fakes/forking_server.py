"""A server that is slow to be ready, starts two children (one leaves its group), and ignores SIGTERM if told to.

    forking_server.py PORT PIDS [--stubborn] [--not-ready N] [--fails]

PIDS is the file to which it writes the pids of all three.
"""

import os
import signal
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

SLEEPER = [sys.executable, "-c", "import time; time.sleep(600)"]


class Handler(BaseHTTPRequestHandler):
    not_ready = 0

    def do_GET(self) -> None:
        ready = Handler.not_ready <= 0
        Handler.not_ready -= 1
        self.send_response(200 if ready else 503)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        print("asked", self.path, flush=True)


def main(arguments: list[str]) -> None:
    port, pids, *options = arguments
    if "--fails" in options:
        print("loading the model", flush=True)
        sys.exit("CUDA out of memory: tried to allocate 2.00 GiB")
    if "--stubborn" in options:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "--not-ready" in options:
        Handler.not_ready = int(options[options.index("--not-ready") + 1])
    children = [subprocess.Popen(SLEEPER), subprocess.Popen(SLEEPER, start_new_session=True)]
    family = [os.getpid(), *(child.pid for child in children)]
    Path(pids).write_text(" ".join(map(str, family)))
    HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
