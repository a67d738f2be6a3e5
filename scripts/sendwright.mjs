#!/usr/bin/env node
/* The commands: `npm run -s sendwright -- <command>`, or this file with the command. Makes the project ready as `npm start` does. */
process.argv.splice(2, 0, 'src/cli.ts');
await import('./run.mjs');
