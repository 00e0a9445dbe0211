// The state of one granted lock, and who is notified of its changes. Only the session and the locks change it.

import { LockLost } from "./errors.js";

export const HELD = "held";
export const LOST = "lost";
export const RELEASED = "released";

export class Held {
  state = HELD;
  why = "";
  inJeopardy = false; // as it was notified last
  lossWasThrown = false; // by a call of the application
  renewing = Promise.resolve(); // the last renewal: one is in flight at a time (C1.7)
  observer = null; // of the handle: jeopardy, safe, lost, revokeRequested

  constructor({ request, sessionNumber, token, life, slot = null, epoch = 0, tier }) {
    Object.assign(this, { request, sessionNumber, token, life, slot, epoch, tier });
  }

  get name() {
    return this.request.text;
  }

  loss() {
    return new LockLost(`${this.name} was lost: ${this.why}`, this.why);
  }

  /** Final (C2.4). */
  lose(why) {
    if (this.state === HELD) {
      this.state = LOST;
      this.why = why;
      this.observer?.lost(this.loss());
    }
  }

  /** What the clock says now; each change is notified once. */
  note(isInJeopardy) {
    if (this.state === HELD && isInJeopardy !== this.inJeopardy) {
      this.inJeopardy = isInJeopardy;
      this.observer?.[isInJeopardy ? "jeopardy" : "safe"]();
    }
  }
}
