// Streams of server-sent events, resumed at any node without a gap (C8).

import { RETRY_MAX_MS } from "./caller.js";
import { sleep } from "./clock.js";
import { jitter } from "./endpoints.js";
import { Invalid, fromAnswer } from "./errors.js";
import { Broken, NotSent } from "./http.js";

const MAX_LINE = 16 * 1024 * 1024;

/** The lines of pieces of text. */
async function* lines(pieces) {
  let rest = "";
  for await (const piece of pieces) {
    const parts = (rest + piece).split("\n");
    rest = parts.pop();
    if (rest.length > MAX_LINE) {
      throw new Broken("a line of the stream is too long");
    }
    yield* parts.map((line) => line.replace(/\r$/, ""));
  }
}

/** `{ id, type, data }` for each event; comments are skipped. */
export async function* parseEvents(pieces) {
  let fields = {};
  for await (const line of lines(pieces)) {
    const colon = line.indexOf(":");
    if (line === "" && fields.event !== undefined) {
      let data;
      try {
        data = JSON.parse(fields.data ?? "{}");
      } catch {
        throw new Broken("an event of the stream is not JSON");
      }
      yield { id: fields.id ?? null, type: fields.event, data };
    }
    if (line === "") {
      fields = {};
    } else if (colon > 0) {
      fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
    }
  }
}

/** All events after `lastId`, over as many connections as it takes, until `signal` is aborted. Throws the refusal of the service. */
export class Stream {
  #caller;
  #path;
  #signal;
  #leftOut;
  #avoid = null; // the node that broke last

  /** With `showsReady`, the begin of each connection is an event, too. */
  constructor(caller, path, { lastId = null, signal, showsReady = false } = {}) {
    if (lastId !== null && !/^[0-9]+-[0-9]+$/.test(lastId)) {
      throw new Invalid(`lastId is "${lastId}", which is not the id of an event`, "invalid_event_id");
    }
    this.#caller = caller;
    this.#path = path;
    this.#signal = signal;
    this.lastId = lastId;
    this.#leftOut = showsReady ? ["dropped"] : ["ready", "dropped"];
  }

  /** Of one connection, until it breaks. The next one is to another node. */
  async *#once() {
    const headers = this.lastId === null ? {} : { "Last-Event-ID": this.lastId };
    const answer = await this.#caller.open({ path: this.#path, headers, signal: this.#signal, avoid: this.#avoid });
    this.#avoid = answer.endpoint;
    try {
      if (answer.status === 503 || answer.status === 504) {
        throw new Broken("the node cannot serve the stream now");
      }
      if (answer.status === 401 && this.#caller.transport.reloadToken()) {
        throw new Broken("the token has changed in its file");
      }
      if (answer.status !== 200) {
        throw fromAnswer(answer.status, answer.body);
      }
      for await (const event of parseEvents(answer.pieces)) {
        this.lastId = event.id ?? this.lastId;
        if (!this.#leftOut.includes(event.type)) {
          yield event;
        }
      }
    } finally {
      answer.end();
    }
  }

  async *[Symbol.asyncIterator]() {
    while (!this.#signal?.aborted) {
      try {
        yield* this.#once();
      } catch (error) {
        if (!(error instanceof Broken || error instanceof NotSent)) {
          throw error;
        }
      }
      await sleep(this.#caller.clock, jitter(RETRY_MAX_MS), this.#signal);
    }
  }
}
