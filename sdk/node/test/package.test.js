// The package as users get it: its types, its files, its README.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { defineAsyncDispose } from "../lib/dispose.js";
import * as holdfast from "../lib/index.js";
import * as testing from "../lib/testing.js";
import { PATIENCE_MS, makeCluster } from "./cluster.js";

const FOLDER = fileURLToPath(new URL("..", import.meta.url));
const TSC = "/usr/bin/tsc"; // Debian's node-typescript
const read = (name) => readFileSync(join(FOLDER, name), "utf8");

function runIn(cwd, command, ...words) {
  const done = spawnSync(command, words, { cwd, encoding: "utf8", timeout: PATIENCE_MS });
  assert.equal(done.status, 0, `${command} ${words.join(" ")}: ${done.error ?? ""}\n${done.stdout}${done.stderr}`);
  return done.stdout;
}

const run = (command, ...words) => runIn(FOLDER, command, ...words);

function findNpm(t) {
  const npm = ["/usr/bin/npm", "/usr/local/bin/npm"].find(existsSync);
  if (npm === undefined) {
    skipOrFail(t, "npm is not installed");
  }
  return npm;
}

/** CI has everything. */
function skipOrFail(t, lacking) {
  assert.notEqual(process.env.CI, "true", lacking);
  t.skip(lacking);
}

test("the_types_are_those_that_an_application_needs", (t) => {
  if (!existsSync(TSC)) {
    skipOrFail(t, "node-typescript is not installed");
    return;
  }
  run(process.execPath, TSC, "--project", "test");
});

test("what_is_typed_exists_and_what_exists_is_typed", () => {
  for (const [name, module] of [["index.d.ts", holdfast], ["testing.d.ts", testing]]) {
    const types = read(name);
    const exported = [...types.matchAll(/^export (?:class|const|function) (\w+)/gm)].map(([, word]) => word);
    assert.deepEqual(exported.sort(), Object.keys(module).sort());
    for (const type of ["Lock", "Watch", "Holdfast", "FakeCluster", "MemoryFence"].filter((one) => one in module)) {
      const body = new RegExp(`^export class ${type} .*?^}`, "ms").exec(types)[0];
      const typed = [...body.matchAll(/^ {2}(?:readonly )?(\w+)(?:<.*?>)?[(:]/gm)].map(([, word]) => word);
      const inherited = ["on", "once", "off"]; // of EventEmitter
      const there = Object.getOwnPropertyNames(module[type].prototype).filter((word) => word !== "constructor");
      assert.deepEqual(typed.filter((word) => ![...inherited, "constructor"].includes(word)).sort(), there.sort(), type);
    }
  }
});

test("the_package_has_its_files_and_no_others", (t) => {
  const npm = findNpm(t);
  if (npm === undefined) {
    return;
  }
  const [packed] = JSON.parse(run(npm, "pack", "--dry-run", "--json", "--offline", "--ignore-scripts"));
  const files = packed.files.map(({ path }) => path).sort();
  assert.deepEqual(files.filter((path) => !path.startsWith("lib/")), ["README.md", "index.d.ts", "package.json", "testing.d.ts"]);
  assert.ok(files.filter((path) => path.startsWith("lib/")).every((path) => path.endsWith(".js")));
  const { dependencies, exports } = JSON.parse(read("package.json"));
  assert.equal(dependencies, undefined);
  for (const { types, default: code } of Object.values(exports)) {
    assert.ok(files.includes(types.slice(2)) && files.includes(code.slice(2)));
  }
});

test("the_symbol_of_disposal_is_defined_where_it_is_missing", () => {
  assert.equal(typeof Symbol.asyncDispose, "symbol");
  const old = {};
  const made = defineAsyncDispose(old);
  assert.equal(typeof made, "symbol");
  assert.equal(old.asyncDispose, made);
  assert.deepEqual(Object.keys(old), [], "not enumerable, as in Node.js");
  assert.equal(defineAsyncDispose(Symbol), Symbol.asyncDispose);
});

test("the_examples_of_the_readme_run", async (t) => {
  const [first, second] = [...read("README.md").matchAll(/^```js\n(.*?)^```/gms)].map(([, code]) => code);
  const cluster = await makeCluster(t, { nodes: 1 });
  const named = '["10.0.0.1:4653", "10.0.0.2:4653", "10.0.0.3:4653"]';
  assert.ok(first.includes(named));
  const npm = findNpm(t);
  if (npm === undefined) {
    return;
  }
  const folder = mkdtempSync(join(tmpdir(), "holdfast-readme-"));
  try {
    writeFileSync(join(folder, "package.json"), "{}");
    runIn(folder, npm, "install", "--offline", "--no-audit", "--no-fund", "--ignore-scripts", FOLDER);
    const write = (name, code) => {
      writeFileSync(join(folder, name), code);
      return join(folder, name);
    };
    const writer = "const writeBalance = async ({ fence }) => console.log(`fence ${fence > 0}`);\n";
    assert.equal(runIn(folder, process.execPath, write("first.mjs", writer + first.replace(named, JSON.stringify(cluster.endpoints)))), "fence true\n");
    const common = read("README.md").match(/`const \{ Holdfast \} = (await import\("holdfast"\))`/)[1];
    assert.equal(runIn(folder, process.execPath, write("common.cjs", `(async () => console.log(typeof (${common}).Holdfast))();\n`)), "function\n");
    const worker = "const work = async (lock) => lock.check();\n";
    runIn(folder, process.execPath, "--test", write("second.test.mjs", worker + second));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
