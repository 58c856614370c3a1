// Many requests of one key at once, by fetch. Arguments: URL, key, how many. Prints what each was answered.

const [url, key, count] = process.argv.slice(2);
const ask = async () => {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", "idempotency-key": `"${key}"`, authorization: "Bearer ann" },
    body: JSON.stringify({ amount: 100 }),
  });
  const replayed = response.headers.get("idempotency-replayed");
  return { status: response.status, body: await response.text(), replayed };
};
const patiently = async () => {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      // Too many connections at once: some take longer than it waits for one.
      if (error.cause?.code !== "UND_ERR_CONNECT_TIMEOUT") throw error;
    }
  }
};
console.log(JSON.stringify(await Promise.all(Array.from({ length: Number(count) }, patiently))));
