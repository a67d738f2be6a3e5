/**
 * Preloaded into a node with `NODE_OPTIONS=--import`, shifts that process's time of day by the ms in the file that
 * CHAOS_CLOCK names, which may change while it runs. Timers and `performance.now()` are not affected, as on a machine
 * whose time is set.
 */
import { readFileSync } from 'node:fs';

const Real = Date;
const file = process.env.CHAOS_CLOCK ?? '';
let offMs = 0;

function read(): void {
  offMs = Number(readFileSync(file, 'utf8')) || 0;
}

const now = () => Real.now() + offMs;

globalThis.Date = new Proxy(Real, {
  construct: (target, args, created) => Reflect.construct(target, args.length === 0 ? [now()] : args, created),
  apply: () => new Real(now()).toString(),
  get: (target, name, receiver) => (name === 'now' ? now : Reflect.get(target, name, receiver)),
});

read();
setInterval(read, 100).unref();
