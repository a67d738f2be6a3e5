/*
 * Runs tap in this process, which is the project's Node: tap starts each test file with the Node that it runs in. In a
 * log one line a file says more than all of TAP; either way tap's own totals come last.
 */
const asked = process.argv.some((argument) => /^(--reporter|-R)/.test(argument));
if (!process.stdout.isTTY) {
  if (!asked) process.argv.push('--reporter=terse');
  // Else the reporter redraws its screen again and again, into a log file as well.
  process.env.CONTINUOUS_INTEGRATION ??= '1';
}

await import('../node_modules/tap/dist/esm/run.mjs');
