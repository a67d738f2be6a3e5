/*
 * Starts everything: `node scripts/run.mjs [options of Node] <script> [its arguments]`, from a fresh clone as well. It
 * installs the packages and generates the database client when they are not up to date, then runs the script with the
 * project's own Node. This file keeps to what old versions of Node understand: it has to tell them that they are old.
 */
const oldest = 20;

if (Number(process.versions.node.split('.')[0]) < oldest) {
  console.error(
    `Sendwright needs Node ${oldest} or later to start, this is ${process.version}: see https://nodejs.org`,
  );
  process.exit(1);
}

void import('./start/main.mjs').then(({ main }) => main(process.argv.slice(2)));
