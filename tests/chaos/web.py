"""A workload that serves HTTP on its pod's own address, and counts aloud what it is asked. Run by its path.

python web.py PORT
"""

import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{os.environ['POD_NAME']} on {os.environ['NODE_NAME']}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so.
        sys.stdout.write(f"{self.path}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    ThreadingHTTPServer((os.environ["POD_IP"], int(sys.argv[1])), Handler).serve_forever()
