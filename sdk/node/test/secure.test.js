// TLS, tokens and tenants against real nodes (docs/CLIENTS.md, C7).

import assert from "node:assert/strict";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { Denied, Holdfast, Invalid, Unreachable, optionsFromEnv } from "../lib/index.js";
import { makeCluster } from "./cluster.js";

test("tls_verifies_the_node_and_tokens_decide_what_is_allowed", async (t) => {
  const cluster = await makeCluster(t, { tls: true, auth: true });
  const ca = readFileSync(cluster.ca);
  const red = cluster.client({ ca, token: cluster.tokens["red/lock"] });
  const blue = cluster.client({ ca, token: cluster.tokens["default/root"], tenant: "blue" });
  const locks = [await red.lock("app/one", { wait: 0 }), await blue.lock("app/one", { wait: 0 })];
  locks.forEach((lock) => lock.check());
  await assert.rejects(red.lock("other", { wait: 0 }), (error) => error instanceof Denied && error.code === "denied");

  const certificate = cluster.client({ ca, cert: readFileSync(cluster.cert), key: readFileSync(cluster.key) });
  assert.equal(await certificate.tryLock("app/one"), null, "it is a client of the tenant red");
  await (await certificate.tryLock("app/two")).release();

  const nobody = cluster.client({ ca });
  await assert.rejects(nobody.lock("app/one", { wait: 0 }), (error) => error instanceof Denied && error.code === "unauthenticated");
  const distrustful = cluster.client({ tls: true, timeout: 500 });
  await assert.rejects(distrustful.lock("app/one", { wait: 0 }), (error) => error instanceof Unreachable && /certificate/i.test(error.message));
  const folder = mkdtempSync(join(tmpdir(), "holdfast-token-"));
  try {
    const tokenFile = join(folder, "token");
    writeFileSync(tokenFile, "not-a-token\n", { mode: 0o644 });
    assert.throws(() => cluster.client({ ca, tokenFile }), /chmod 600/);
    chmodSync(tokenFile, 0o600);
    const reader = cluster.client({ ca, tokenFile });
    await assert.rejects(reader.lock("app/three", { wait: 0 }), Denied);
    writeFileSync(tokenFile, `${cluster.tokens["red/lock"]}\n`);
    await (await reader.lock("app/three", { wait: 0 })).release();
    const env = { HOLDFAST_ENDPOINTS: cluster.endpoints.join(","), HOLDFAST_CA: cluster.ca, HOLDFAST_TOKEN_FILE: tokenFile };
    const here = cluster.client({ ...optionsFromEnv(env) });
    await (await here.lock("app/three", { wait: 0 })).release();
  } finally {
    rmSync(folder, { recursive: true });
  }
  const misled = cluster.client({ ca, serverName: "other.example", timeout: 500 });
  await assert.rejects(misled.lock("app/one", { wait: 0 }), (error) => error instanceof Unreachable && /other\.example/.test(error.message));
});

test("credentials_that_would_split_a_header_are_refused_and_not_repeated", () => {
  assert.throws(() => new Holdfast({ token: "secret\r\nX: b" }), (error) => error instanceof Invalid && !error.message.includes("secret"));
  assert.throws(() => new Holdfast({ tenant: "a b\n" }), Invalid);
  assert.throws(() => new Holdfast({ token: "a", tokenFile: "b" }), Invalid);
  assert.throws(() => new Holdfast({ tokenFile: "/nonexistent" }), { code: "invalid_token_file" });
  assert.throws(() => new Holdfast({ tls: false, ca: "x" }), Invalid);
  assert.throws(() => new Holdfast({ tokens: "secret" }), Invalid);
});
