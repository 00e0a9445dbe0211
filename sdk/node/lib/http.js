// HTTP/1.1 by Node.js's own client: connections are kept, one agent for each node.

import http from "node:http";
import https from "node:https";

import { checkHeader } from "./credentials.js";

const MAX_BODY = 16 * 1024 * 1024;
const MAX_IDLE = 8; // connections that are kept for a node
export const SILENCE_MS = 30_000; // a stream without a byte for so long is broken

/** No byte of the request left: it was certainly not done. */
export class NotSent extends Error {}

/** The connection ended or brought something else than an answer: the request may have been done. */
export class Broken extends Error {}

function parseObject(text) {
  try {
    const value = JSON.parse(text || "{}");
    return typeof value === "object" && value !== null ? value : {};
  } catch {
    return {};
  }
}

async function readBody(response) {
  const pieces = [];
  let size = 0;
  for await (const piece of response) {
    size += piece.length;
    if (size > MAX_BODY) {
      throw new Broken("the answer is too large");
    }
    pieces.push(piece);
  }
  if (!response.complete) {
    throw new Broken("the connection ended");
  }
  return parseObject(Buffer.concat(pieces).toString("utf8"));
}

export class Transport {
  #token;
  #headers;
  #tls;
  #connectTimeout;
  #agents = new Map();

  /** @param tls options of node:tls, or null */
  constructor({ token, tenant, tls, connectTimeout }) {
    this.#token = token;
    this.#headers = tenant === undefined ? {} : { "Holdfast-Tenant": checkHeader("tenant", tenant) };
    this.#tls = tls;
    this.#connectTimeout = connectTimeout;
  }

  #agent(endpoint) {
    if (!this.#agents.has(endpoint)) {
      const kept = { keepAlive: true, maxFreeSockets: MAX_IDLE };
      this.#agents.set(endpoint, this.#tls ? new https.Agent({ ...kept, ...this.#tls }) : new http.Agent(kept));
    }
    return this.#agents.get(endpoint);
  }

  /** Sends it and resolves with the response when its head has arrived. `timers` gets the ways to end it. */
  #start(endpoint, { method, path, body, headers, signal, timers }) {
    return new Promise((resolve, reject) => {
      let connected = false;
      let answer;
      const request = (this.#tls ? https : http).request({
        host: endpoint.host,
        port: endpoint.port,
        method,
        path,
        agent: this.#agent(endpoint),
        headers: { ...this.#headers, ...this.#token.headers, ...headers, "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) },
      });
      const destroy = (why) => {
        timers.why ??= why;
        // The socket of an answer that is complete has no listener for an error any more.
        request.destroy(answer?.complete ? undefined : new Error(why));
      };
      const cancel = () => destroy("cancelled");
      timers.destroy = destroy;
      timers.end = () => {
        clearTimeout(timers.answer);
        clearTimeout(timers.connect);
        signal?.removeEventListener("abort", cancel);
      };
      signal?.addEventListener("abort", cancel);
      if (signal?.aborted) {
        cancel();
      }
      request.on("socket", (socket) => {
        if (request.reusedSocket) {
          connected = true;
          return;
        }
        timers.connect = setTimeout(() => destroy("connecting timed out"), this.#connectTimeout);
        socket.once(this.#tls ? "secureConnect" : "connect", () => {
          connected = true;
          clearTimeout(timers.connect);
        });
      });
      request.on("error", (error) => {
        timers.end();
        reject(new (connected ? Broken : NotSent)(error.message || error.code || "the connection broke"));
      });
      request.on("response", (response) => {
        answer = response;
        resolve(response);
      });
      request.end(body);
    });
  }

  /** One attempt. Throws NotSent or Broken; of a timeout, Broken. After a 401, a token that has changed in its file is tried. */
  async request(endpoint, request) {
    const response = await this.#request(endpoint, request);
    return response.status === 401 && this.reloadToken() ? this.#request(endpoint, request) : response;
  }

  reloadToken() {
    return this.#token.reload();
  }

  async #request(endpoint, { method, path, body = "", timeout, signal }) {
    const timers = {};
    const started = this.#start(endpoint, { method, path, body, signal, timers });
    timers.answer = setTimeout(() => timers.destroy("no answer in time"), timeout);
    try {
      const response = await started;
      return { status: response.statusCode, body: await readBody(response) };
    } catch (error) {
      throw error instanceof NotSent || error instanceof Broken ? error : new Broken(timers.why ?? error.message);
    } finally {
      timers.end();
    }
  }

  /** Opens an endless answer: its status, the body of a refusal, and the pieces of text. The connection ends with `signal`. */
  async open(endpoint, { path, headers, timeout, signal }) {
    const timers = {};
    const started = this.#start(endpoint, { method: "GET", path, body: "", headers, signal, timers });
    timers.answer = setTimeout(() => timers.destroy("no answer in time"), timeout);
    try {
      const response = await started;
      clearTimeout(timers.answer);
      if (response.statusCode !== 200) {
        const body = await readBody(response);
        timers.end();
        return { status: response.statusCode, body, pieces: [] };
      }
      response.socket.setTimeout(SILENCE_MS, () => timers.destroy("the stream is silent"));
      return { status: 200, body: {}, pieces: this.#pieces(response, timers) };
    } catch (error) {
      timers.end();
      throw error instanceof NotSent || error instanceof Broken ? error : new Broken(timers.why ?? error.message);
    }
  }

  async *#pieces(response, timers) {
    try {
      response.setEncoding("utf8");
      for await (const piece of response) {
        yield piece;
      }
    } catch (error) {
      throw new Broken(error.message);
    } finally {
      timers.end();
      timers.destroy("the stream has ended");
    }
  }

  closeIdle(endpoint) {
    for (const sockets of Object.values(this.#agents.get(endpoint)?.freeSockets ?? {})) {
      sockets.forEach((socket) => socket.destroy());
    }
  }

  close() {
    for (const agent of this.#agents.values()) {
      agent.destroy();
    }
    this.#agents.clear();
  }
}
