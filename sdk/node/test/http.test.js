// Connections that end while the client ends them, against a server of our own.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";

import { Endpoints } from "../lib/endpoints.js";
import { Broken, Transport } from "../lib/http.js";

test("a stream that is cancelled while its last piece is read ends quietly", async (t) => {
  const server = createServer((_, answer) => answer.end("the last piece"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const [endpoint] = new Endpoints([`127.0.0.1:${server.address().port}`]).all;
  const transport = new Transport({ token: { headers: {} }, tls: null, connectTimeout: 5000 });
  t.after(() => transport.close());
  const cancel = new AbortController();
  const { pieces } = await transport.open(endpoint, { path: "/", headers: {}, timeout: 5000, signal: cancel.signal });
  const read = [];
  try {
    for await (const piece of pieces) {
      read.push(piece);
      cancel.abort();
    }
  } catch (error) {
    assert.ok(error instanceof Broken);
  }
  await setImmediate(); // an error of the socket without a listener would end the process
  await setImmediate();
  assert.deepEqual(read, ["the last piece"]);
});
