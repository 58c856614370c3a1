// A client as people write them: fetch, in a loop. Arguments: URL, key, timeout in seconds.

import { setTimeout as delay } from "node:timers/promises";

const [url, key, timeout] = process.argv.slice(2);
for (let retries = 0; retries < 60; retries++) {
  if (retries > 0) await delay(100);
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": `"${key}"`, authorization: "Bearer ann" },
      body: JSON.stringify({ amount: 100 }),
      signal: AbortSignal.timeout(Number(timeout) * 1000),
    });
    if ([409, 502, 503, 504].includes(response.status)) {
      await response.arrayBuffer();
      continue;
    }
    const replayed = response.headers.get("idempotency-replayed");
    console.log(JSON.stringify({ status: response.status, body: await response.json(), replayed, retries }));
    process.exit(0);
  } catch (error) {
    // The connection was refused or ended, or it took too long.
    if (error.name !== "TimeoutError" && error.message !== "fetch failed") throw error;
  }
}
process.exit(1);
