// Events of the service as an async iterator (C8).

import { setMaxListeners } from "node:events";

import { asyncDispose } from "./dispose.js";
import { Stream } from "./stream.js";

export class Watch {
  #stream;
  #events;
  #ending = new AbortController();
  #onEnd;

  constructor(caller, prefix, { lastId = null, signal, onEnd = () => {} } = {}) {
    setMaxListeners(0, this.#ending.signal);
    const query = prefix === "" ? "" : `?prefix=${encodeURIComponent(prefix)}`;
    this.#stream = new Stream(caller, `/api/v1/watch${query}`, { lastId, signal: this.#ending.signal });
    this.#events = this.#stream[Symbol.asyncIterator]();
    const abort = () => this.close();
    signal?.addEventListener("abort", abort);
    this.#onEnd = () => {
      signal?.removeEventListener("abort", abort);
      onEnd(this);
    };
    if (signal?.aborted) {
      this.close();
    }
  }

  get lastId() {
    return this.#stream.lastId;
  }

  /** After close() it ends; an error of the service is thrown once. */
  async next() {
    try {
      return await this.#events.next();
    } catch (error) {
      if (this.#ending.signal.aborted) {
        return { done: true, value: undefined };
      }
      this.close();
      throw error;
    }
  }

  async return() {
    this.close();
    return { done: true, value: undefined };
  }

  close() {
    this.#ending.abort();
    this.#onEnd();
  }

  async [asyncDispose]() {
    this.close();
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}
