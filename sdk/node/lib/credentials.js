// What a client shows to a cluster: a token, also from a file (C7). And the settings of the environment.

import { readFileSync, statSync } from "node:fs";

import { Invalid } from "./errors.js";

export function checkHeader(what, value) {
  if (typeof value !== "string" || !/^[\x20-\x7e]+$/.test(value)) {
    throw new Invalid(`the ${what} has characters that a header cannot have`, `invalid_${what}`);
  }
  return value;
}

function readFile(file, what) {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new Invalid(`the ${what} ${file} cannot be read: ${error.code}`, `invalid_${what.replaceAll(" ", "_")}`);
  }
}

function readToken(file) {
  const token = readFile(file, "token file").toString("utf8").trim();
  const mode = statSync(file).mode & 0o777;
  if (process.platform !== "win32" && (mode & 0o077) !== 0) {
    const octal = mode.toString(8).padStart(4, "0");
    throw new Invalid(`the token file ${file} can be read by other users (mode ${octal}); run: chmod 600 ${file}`, "invalid_token_file");
  }
  if (token === "") {
    throw new Invalid(`the token file ${file} is empty`, "invalid_token_file");
  }
  return checkHeader("token", token);
}

/** A token from a file is read again when a node refuses it. */
export class TokenSource {
  #file;
  #token;

  constructor({ token, tokenFile } = {}) {
    if (token !== undefined && tokenFile !== undefined) {
      throw new Invalid("token and tokenFile are both given; give one of them", "invalid_token");
    }
    this.#file = tokenFile;
    this.#token = tokenFile === undefined ? token : readToken(tokenFile);
    if (this.#token !== undefined) {
      checkHeader("token", this.#token);
    }
  }

  get headers() {
    return this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` };
  }

  /** Whether the file has another token now. */
  reload() {
    const before = this.#token;
    try {
      this.#token = this.#file === undefined ? before : readToken(this.#file);
    } catch {
      return false;
    }
    return this.#token !== before;
  }
}

/** The settings that libholdfast and the command line use, too, as options of a client. */
export function optionsFromEnv(env = process.env) {
  const given = (name) => env[`HOLDFAST_${name}`] || undefined;
  const file = (name) => (given(name) === undefined ? undefined : readFile(given(name), "certificate"));
  const options = {
    endpoints: given("ENDPOINTS"),
    tls: given("CA") === "system" ? true : undefined,
    ca: given("CA") === "system" ? undefined : file("CA"),
    cert: file("CERT"),
    key: file("KEY"),
    serverName: given("SERVER_NAME"),
    tokenFile: given("TOKEN_FILE"),
    tenant: given("TENANT"),
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}
