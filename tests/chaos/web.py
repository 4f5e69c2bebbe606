"""A workload that serves HTTP on its pod's own address, and counts aloud what it is asked. Run by its path.

python web.py PORT

Told to end it takes no new requests, answers those that it has, and ends. `BROKEN` in its environment makes it one that
never becomes ready.
"""

import os
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_ill = bool(os.environ.get("BROKEN")) and self.path == "/healthz"
        body = f"{os.environ['POD_NAME']} on {os.environ['NODE_NAME']} {os.environ.get('VERSION', '')}\n".encode()
        self.send_response(503 if is_ill else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so.
        sys.stdout.write(f"{self.path}\n")
        sys.stdout.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = False  # So that closing it waits for what it answers just then.
    request_queue_size = 128


def main() -> None:
    with Server((os.environ["POD_IP"], int(sys.argv[1])), Handler) as server:
        # In a thread: `shutdown` waits until serving is over, which cannot be while a signal is handled.
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
        server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
