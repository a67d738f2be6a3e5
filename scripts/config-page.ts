import { variables } from '../src/config/variables.ts';

/** The rows of the table, one a variable; the README has those that most people set. */
export const configRows = (): string[] =>
  variables.map(({ name, fallback, meaning }) => `| \`${name}\` | ${fallback} | ${meaning} |`);

/** docs/config.md, as `npm run config-page` prints it; a test holds the file against it. */
export function configPage(): string {
  return [
    '# Configuration',
    '',
    'Everything is set through the environment, read once at the start. A wrong or missing value stops the start with one',
    'line that names the variable and what it must be. An empty variable counts as unset, and one in quotes is refused:',
    '`docker run --env-file` keeps them as part of the value.',
    '',
    '| Variable | Default | Meaning |',
    '|---|---|---|',
    ...configRows(),
    '',
    'This page is made from `src/config/variables.ts`: `npm run -s config-page > docs/config.md`.',
    '',
  ].join('\n');
}

if (import.meta.main) process.stdout.write(configPage());
