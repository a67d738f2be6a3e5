#!/usr/bin/env node
/* The commands: `npx sendwright <command>`, or `node scripts/sendwright.mjs <command>`. Makes the project ready as `npm start` does. */
process.argv.splice(2, 0, 'src/cli.ts');
await import('./run.mjs');
