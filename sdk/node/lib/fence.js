// The guard of resources that live in the memory of this process.

import { Invalid, LimitReached, StaleToken } from "./errors.js";

const MAX_RESOURCES = 65_536;

/** A resource with durable data keeps the mark with the data instead, as the fences in contrib do. */
export class MemoryFence {
  #highest = new Map();

  /** Call it in the same turn of the event loop as the write. */
  guard(resource, token) {
    if (typeof resource !== "string" || resource === "") {
      throw new Invalid("the resource of a fence is a string that is not empty", "invalid_resource");
    }
    if (!Number.isSafeInteger(token) || token < 1) {
      throw new Invalid(`${resource}: ${String(token)} is no fencing token`, "invalid_token");
    }
    const highest = this.#highest.get(resource);
    if (token < highest) {
      throw new StaleToken(resource, token, highest);
    }
    if (highest === undefined && this.#highest.size >= MAX_RESOURCES) {
      throw new LimitReached(`the fence has ${MAX_RESOURCES} resources, which is the limit; ${resource} is not one of them`);
    }
    this.#highest.set(resource, token);
  }
}
