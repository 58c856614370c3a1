// A service that knows nothing of idempotency keys, in Node.
//
// POST anything: counted, and answered with the count. POST /fail-once: 503 for the first request of each key. POST /hold:
// answered when somebody has asked GET /release. GET /count: how many POSTs came. The port is the first line it prints.

import { createServer } from "node:http";

let count = 0;
let release;
const released = new Promise((resolve) => (release = resolve));
const failed = new Set();

const server = createServer(async (request, response) => {
  const answer = (status, value) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(JSON.stringify(value));
  };
  if (request.method === "GET") {
    if (request.url === "/release") release();
    return answer(200, { count });
  }
  let bytes = 0;
  for await (const piece of request) bytes += piece.length;
  const n = ++count;
  const key = request.headers["idempotency-key"];
  if (request.url === "/fail-once" && !failed.has(key)) {
    failed.add(key);
    return answer(503, { error: "not now" });
  }
  if (request.url === "/hold") await released;
  answer(201, { n, bytes });
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
