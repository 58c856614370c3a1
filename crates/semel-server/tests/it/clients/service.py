"""A service that knows nothing of idempotency keys, in Python.

POST anything: counted, and answered with the count. POST /fail-once: 503 for the first request of each key. POST /hold:
answered when somebody has asked GET /release. GET /count: how many POSTs came. The port is the first line it prints.
"""

import json
import socketserver
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

released = threading.Event()
lock = threading.Lock()
count = 0
failed = set()


class Service(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/release":
            released.set()
        self.answer(200, {"count": count})

    def do_POST(self):
        global count
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        with lock:
            count += 1
            n = count
            fails = self.path == "/fail-once" and self.headers["Idempotency-Key"] not in failed
            failed.add(self.headers["Idempotency-Key"])
        if fails:
            return self.answer(503, {"error": "not now"})
        if self.path == "/hold":
            released.wait()
        self.answer(201, {"n": n, "bytes": len(body)})

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def server_bind(self):
        # Without asking for this machine's name, which may take long.
        socketserver.TCPServer.server_bind(self)


server = Server(("127.0.0.1", 0), Service)
print(server.server_address[1], flush=True)
server.serve_forever()
