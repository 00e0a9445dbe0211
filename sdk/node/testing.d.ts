// Types of holdfast/testing: the real client on a cluster in memory, with a manual clock.

import { Holdfast, Lock } from "./index.js";

export class FakeCluster {
  client(clientId?: string, options?: { sessionTtl?: number; timeout?: number }): Holdfast;
  /** Lets time pass: with keep-alives for connected clients, without for others. Listeners of losses have run afterwards. */
  advance(ms: number): Promise<void>;
  /** Nothing arrives from or at it any longer. Its close() connects it. */
  disconnect(client: Holdfast): void;
  connect(client: Holdfast): void;
  /** Ends the grant at the service now, as after a force-unlock. A connected client was notified afterwards. */
  lose(lock: Lock, why?: string): Promise<void>;
  /** An operator requests the lock and takes it after `ms`. */
  revoke(lock: Lock, ms?: number, reason?: string): Promise<void>;
  /** A failover: locks of the tier EFFICIENCY are lost, others are not. */
  changeLeader(): Promise<void>;
  /** The client ids. */
  holders(name: string): string[];
  waiters(name: string): number;
}
