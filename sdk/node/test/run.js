// Runs the tests with the Node.js that runs this, all files or those named. The last line is `N passed, N failed, N skipped in N s`.

import { spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL(".", import.meta.url));
const chosen = process.argv.slice(2);
const files = chosen.length > 0 ? chosen : readdirSync(folder).filter((name) => name.endsWith(".test.js")).map((name) => folder + name);
const began = performance.now();
const tests = spawn(process.execPath, ["--test", "--test-reporter=tap", ...files], { stdio: ["ignore", "pipe", "inherit"] });
const counts = { pass: 0, fail: 0, cancelled: 0, skipped: 0 };

console.log(`Node.js ${process.version}`);
for await (const line of createInterface({ input: tests.stdout })) {
  console.log(line);
  const [, what, count] = /^# (pass|fail|cancelled|skipped) ([0-9]+)$/.exec(line) ?? [];
  if (what !== undefined) {
    counts[what] = Number(count);
  }
}
const status = await new Promise((resolve) => (tests.exitCode === null ? tests.once("exit", resolve) : resolve(tests.exitCode)));
const failed = counts.fail + counts.cancelled;
const seconds = ((performance.now() - began) / 1000).toFixed(1);
console.log(`${counts.pass} passed, ${failed} failed, ${counts.skipped} skipped in ${seconds}s`);
process.exitCode = status === 0 && failed === 0 && counts.pass > 0 ? 0 : 1;
