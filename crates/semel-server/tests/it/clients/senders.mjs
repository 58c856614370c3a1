// Those who send events with the package `cloudevents`. Argument: where the server is.
// Each sends its event three times, and what was answered is printed: for each sender a list of statuses.

import { createRequire } from "node:module";

const require = createRequire(`${process.env.SEMEL_TEST_NODE_PATH}/`);
const { CloudEvent, HTTP, Mode, emitterFor } = require("cloudevents");

const base = process.argv[2];
const answers = {};

const event = (id) =>
  new CloudEvent({
    id,
    source: "https://example.com/event-producer",
    type: "com.example.sampletype1",
    subject: 'quoted "a", 100%',
    time: "2026-11-16T06:30:00.000Z",
    datacontenttype: "application/json",
    data: { message: "Hello World!" },
  });

// As its manual has it: a transport of one's own for the emitter.
async function transport(message) {
  const answer = await fetch(`${base}/events`, { method: "POST", headers: message.headers, body: message.body });
  return answer.status;
}

for (const mode of [Mode.BINARY, Mode.STRUCTURED]) {
  const emit = emitterFor(transport, { binding: HTTP, mode });
  answers[mode] = [];
  for (let delivery = 0; delivery < 3; delivery++) {
    answers[mode].push(await emit(event(`node-${mode}`)));
  }
}
console.log(JSON.stringify(answers));
