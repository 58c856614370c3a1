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
      // A crowd fills the queue of a listening socket: some connections take too long, and some are reset.
      if (!["UND_ERR_CONNECT_TIMEOUT", "UND_ERR_SOCKET", "ECONNRESET"].includes(error.cause?.code)) throw error;
    }
  }
};
console.log(JSON.stringify(await Promise.all(Array.from({ length: Number(count) }, patiently))));
