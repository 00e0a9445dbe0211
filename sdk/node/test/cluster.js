// Clusters of real nodes for tests, and waiting for what other processes do. cluster.py controls the nodes.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Holdfast } from "../lib/index.js";

const CONTROL = fileURLToPath(new URL("cluster.py", import.meta.url));
export const PATIENCE_MS = 60_000;

/** A promised time, longer on a busy machine, as in tests/cluster/harness.py. */
export function allowed(ms) {
  return ms * Math.min(Math.max(loadavg()[0] / cpus().length, 1), 8);
}

export async function waitUntil(condition, what, patience = PATIENCE_MS) {
  const end = performance.now() + patience;
  while (!(await condition())) {
    if (performance.now() > end) {
      throw new Error(`not within ${patience} ms: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Starts nodes; they are gone after the test `t`. */
export async function makeCluster(t, options = {}) {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-node-"));
  const control = spawn("/usr/bin/python3", [CONTROL, folder], { stdio: ["pipe", "pipe", "inherit"] });
  const answers = createInterface({ input: control.stdout })[Symbol.asyncIterator]();
  let last = Promise.resolve();
  const call = (command, words = {}) => {
    last = last.catch(() => {}).then(async () => {
      control.stdin.write(`${JSON.stringify({ do: command, ...words })}\n`);
      const { value, done } = await answers.next();
      const answer = done ? { failed: "cluster.py has ended" } : JSON.parse(value);
      if ("failed" in answer) {
        throw new Error(`${command}: ${answer.failed}`);
      }
      return answer.ok;
    });
    return last;
  };
  const clients = [];
  t.after(async () => {
    await Promise.all(clients.map((client) => client.close().catch(() => {})));
    control.stdin.end();
    await new Promise((resolve) => (control.exitCode === null ? control.once("exit", resolve) : resolve()));
    await rm(folder, { recursive: true, force: true });
  });
  const started = await call("start", options);
  const ids = Object.keys(started.endpoints).map(Number);
  return {
    ...started,
    /** Closed before the nodes end. */
    client(options = {}, parts = {}) {
      const client = new Holdfast({ endpoints: Object.values(started.endpoints), ...options }, parts);
      clients.push(client);
      return client;
    },
    ids,
    endpoint: (id) => started.endpoints[id],
    endpoints: Object.values(started.endpoints),
    leader: (but) => call("leader", { but }),
    kill: (node) => call("kill", { node }),
    restart: (node) => call("restart", { node }),
    pause: (...nodes) => call("pause", { nodes }),
    resume: (...nodes) => call("resume", { nodes }),
    request: (method, path, body, node) => call("request", { method, path, body, node }),
    queueOf: (name, length) => call("wait_queue", { name, length }),
  };
}
