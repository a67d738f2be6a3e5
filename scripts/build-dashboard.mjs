import { fileURLToPath } from 'node:url';
import { prepareDashboard } from './start/dashboard.mjs';

/* What `npm start` does first, for tests and for whoever works on the pages. */
await prepareDashboard(fileURLToPath(new URL('..', import.meta.url))).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
