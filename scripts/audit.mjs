import { spawnSync } from 'node:child_process';

/*
 * Asks the registry of npm whether something that is installed has a known hole of severity high or above, which is an
 * error. A registry that cannot be asked is none: a clean clone is checked without a network as well, and it is said.
 */
const grave = ['high', 'critical'];
const withinMs = 60_000;

const { stdout, error } = spawnSync('npm', ['audit', '--json', '--audit-level=high', '--fetch-retries=0'], {
  encoding: 'utf8',
  timeout: withinMs,
  maxBuffer: 64 * 1024 * 1024,
});
const report = parse(stdout ?? '');
const vulnerabilities = report?.vulnerabilities;

if (!vulnerabilities) {
  const why = error?.message ?? report?.message ?? 'no answer that can be read';
  console.log(
    `npm audit: the registry could not be asked (${String(why).slice(0, 200)}); nothing is known about holes`,
  );
} else {
  const holes = Object.values(vulnerabilities).filter(({ severity }) => grave.includes(severity));
  for (const { name, severity, range } of holes) console.log(`npm audit: ${name} ${range} has a hole: ${severity}`);
  const lesser = Object.keys(vulnerabilities).length - holes.length;
  if (holes.length === 0) console.log(`npm audit: no hole of severity high or above, ${lesser} lesser`);
  process.exitCode = holes.length === 0 ? 0 : 1;
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
