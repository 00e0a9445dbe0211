// The events of the fake, as server-sent events with ids from which a stream resumes.

const MAX_EVENTS = 10_000; // that a stream can resume from

export class FakeEvents {
  #number = 0;
  #events = [];
  #streams = new Set();

  /** @param session only for the stream of this session; null: for watches. `everyone`: for the streams of all sessions */
  emit(type, now, about, { session = null, everyone = false, ...more } = {}) {
    this.#number += 1;
    const data = JSON.stringify({ type, at: new Date(now).toISOString(), ...about, ...more });
    const text = `id: ${this.#number}-0\nevent: ${type}\ndata: ${data}\n\n`;
    const event = { number: this.#number, session, everyone, name: about.name ?? null, text };
    this.#events.push(event);
    if (this.#events.length > MAX_EVENTS) {
      this.#events.shift();
    }
    this.#streams.forEach((stream) => stream(event));
  }

  /** Calls `deliver` with the text of each event after `lastId`. Returns the function that ends it. */
  subscribe({ session, prefix, lastId }, deliver) {
    const isFor = (event) => (session !== null
      ? event.everyone || event.session === session
      : event.session === null && (event.name === null ? prefix === "" : event.name.startsWith(prefix)));
    const stream = (event) => isFor(event) && deliver(event.text);
    const first = lastId === undefined ? this.#number : Number(lastId.split("-")[0]);
    deliver(`id: ${first}-0\nevent: ready\ndata: {}\n\n`);
    this.#events.filter(({ number }) => number > first).forEach(stream);
    this.#streams.add(stream);
    return () => this.#streams.delete(stream);
  }
}
