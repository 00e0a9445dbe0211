// Compiled by package.test.js: what an application writes, and what it must not write.

import { CORRECTNESS, Holdfast, MemoryFence, StaleToken, optionsFromEnv, Lock, LockLost, NotAcquired, Revocation, WatchEvent } from "holdfast";
import { FakeCluster } from "holdfast/testing";

export async function use(signal: AbortSignal): Promise<number> {
  const client = new Holdfast({ endpoints: ["h:1"], ca: "pem", cert: "pem", key: new Uint8Array(), token: "t", tenant: "red" });
  const lock: Lock = await client.lock("n", { ttl: 30_000, wait: 0, tier: CORRECTNESS, shared: true, detectDeadlock: true, trace: "t", signal, metadata: { a: [1] } });
  lock.check();
  new MemoryFence().guard("resource", lock.fenceToken);
  await new Holdfast({ ...optionsFromEnv(), tokenFile: "/token" }).close();
  const highest: number = new StaleToken("resource", 1, 2).highest;
  lock.on("lost", (error) => {
    const code: string = error.code;
    return error instanceof LockLost && code;
  });
  lock.once("revokeRequested", (revocation: Revocation) => revocation.deadline?.getTime());
  lock.signal.throwIfAborted();
  const token: number = lock.fenceToken;
  const maybe: Lock | null = await client.tryLock("n");
  const result: string = await client.lead("cron", async (lead) => lead.name, { value: "host" });
  const permit = await client.semaphore("pool", 3, { permits: 2 });
  const slot: number | null = permit.slot;
  const all = await client.multiLock(["a", "b"] as const);
  for await (const event of client.watch("prefix/", { lastId: null, signal })) {
    const seen: WatchEvent = event;
    if (seen.type === "released") {
      break;
    }
  }
  await all[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  const fake = new FakeCluster();
  await fake.advance(1000);
  await fake.changeLeader();
  await fake.lose(await fake.client("a", { sessionTtl: 1000 }).lock("n"));
  // @ts-expect-error: there is no such option
  await client.lock("n", { waits: 5 });
  // @ts-expect-error: it does not wait
  await client.tryLock("n", { wait: 5 });
  // @ts-expect-error: an election has no tier
  await client.campaign("n", { tier: CORRECTNESS });
  // @ts-expect-error: handles are made by the client
  new Lock();
  // @ts-expect-error: there is no such event
  lock.on("gone", () => {});
  return maybe instanceof Lock ? token + highest + result.length + (slot ?? 0) : new NotAcquired("").queueLength;
}
