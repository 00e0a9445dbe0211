// The clock of all deadlines. Node.js has no CLOCK_BOOTTIME, so it is the larger of the elapsed monotonic and wall time (C1.1):
// the monotonic time stops in suspend, the wall time may be set back.

const SET_BACK_MS = 2; // Date.now() has whole ms: less is no step
const TIMER_MAX_MS = 1000; // timers stop in suspend, so a deadline is looked at once a second

export class ElapsedClock {
  #monotonic;
  #wall;
  #reference; // how far the wall clock was ahead of the monotonic one when it was last set back
  #highest; // the most that it was ahead since then
  #passed = 0; // ms of suspend, or of steps forward, before that

  constructor(monotonic = () => performance.now(), wall = () => Date.now()) {
    this.#monotonic = monotonic;
    this.#wall = wall;
    this.#reference = this.#highest = this.#ahead(monotonic());
  }

  /** The monotonic clock is read first: a delay between the readings makes this clock fast, never slow. */
  #ahead(monotonic) {
    return this.#wall() - monotonic;
  }

  /** ms, never goes back. After a step of the wall clock back, time is counted from there, so that a later suspend shows. */
  now() {
    let monotonic = this.#monotonic();
    let ahead = this.#ahead(monotonic);
    if (ahead > this.#highest + SET_BACK_MS) { // a step, or a delay between the two readings
      monotonic = this.#monotonic();
      ahead = Math.min(ahead, this.#ahead(monotonic));
    }
    if (ahead < this.#highest - SET_BACK_MS) {
      this.#passed += this.#highest - this.#reference;
      this.#reference = this.#highest = ahead;
    } else if (ahead > this.#highest) {
      this.#highest = ahead;
    }
    return monotonic + this.#passed + this.#highest - this.#reference;
  }

  /** Calls it after `ms` of this clock, or earlier: at most a second of the monotonic one. Returns a function that cancels. */
  setTimer(callback, ms) {
    const timer = setTimeout(callback, Math.min(Math.max(ms, 1), TIMER_MAX_MS));
    return () => clearTimeout(timer);
  }
}

/** Resolves after `ms`, or when `signal` is aborted. */
export async function sleep(clock, ms, signal) {
  const until = clock.now() + ms;
  while (!signal?.aborted && clock.now() < until) {
    await new Promise((resolve) => {
      const cancel = clock.setTimer(done, until - clock.now());
      function done() {
        cancel();
        signal?.removeEventListener("abort", done);
        resolve();
      }
      signal?.addEventListener("abort", done);
    });
  }
}
