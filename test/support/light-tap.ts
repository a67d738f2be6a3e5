import asyncHooks from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

/* Removes features of tap that no test here needs but all pay for. Must be loaded before tap. */

// To say where an uncaught error comes from, tap assigns each promise to its test. Without that such an error ends the
// group, which fails as well.
asyncHooks.createHook = () => {
  const hook: asyncHooks.AsyncHook = { enable: () => hook, disable: () => hook };
  return hook;
};
syncBuiltinESMExports();

// For coverage, which is off, it records which files a process loads, and makes all processes started by a test do so:
// a quarter of their start.
process.setSourceMapsEnabled(false);
const spawning = Object.getOwnPropertySymbols(globalThis).find((key) =>
  key.description?.startsWith('process-on-spawn'),
);
if (spawning) (globalThis as unknown as Record<symbol, { listeners: unknown[] }>)[spawning]?.listeners.splice(0);
