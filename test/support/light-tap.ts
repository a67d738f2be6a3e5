import asyncHooks from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

/*
 * Takes from tap what no test here needs and all of them pay for. It is to be loaded before tap.
 */

// Tap follows each promise to the test that it belongs to, to say where an error comes from that nobody catches. Without
// that such an error ends the group, which fails as well.
asyncHooks.createHook = () => {
  const hook: asyncHooks.AsyncHook = { enable: () => hook, disable: () => hook };
  return hook;
};
syncBuiltinESMExports();

// It notes for the coverage, which is off, which files a process loads, and makes all processes do so that a test starts:
// a quarter of what their start took.
process.setSourceMapsEnabled(false);
const spawning = Object.getOwnPropertySymbols(globalThis).find((key) =>
  key.description?.startsWith('process-on-spawn'),
);
if (spawning) (globalThis as unknown as Record<symbol, { listeners: unknown[] }>)[spawning]?.listeners.splice(0);
