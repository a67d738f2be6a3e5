import { meanings } from '../src/core/log/advice.ts';
import type { Classification } from '../src/smtp/deliver.ts';
import { rules } from '../src/smtp/rules/rules.ts';

const suppresses = (kind: Classification) => (kind === 'bad_mailbox' || kind === 'bad_domain' ? 'yes' : '');
const cell = (text: string) => text.replaceAll('|', '\\|');

/** docs/classification.md, as this file prints it; a test holds the page against it. */
export function classificationPage(): string {
  const kinds = Object.keys(meanings) as Classification[];
  const noted = rules.filter((rule) => rule.note !== undefined && rule.samples[0] !== undefined);
  return [
    '# What a refusal is about',
    '',
    'Each refusal by a server gets one class from its phase, its code, its enhanced code and its words (`src/smtp/rules/rules.ts`). Whether it is',
    'tried again follows from the code: 4xx is, 5xx is not. But a 5xx before MAIL FROM is, as it is about the connection, and so is one that asks for',
    'TLS if the server offers it and it failed. An address goes onto the suppression list only where a 5xx answer says',
    'that there is nobody, or DNS that the domain does not exist or takes no mail.',
    '',
    '| Class | Suppresses | What it means | What to do |',
    '|---|---|---|---|',
    ...kinds.map(
      (kind) => `| \`${kind}\` | ${suppresses(kind)} | ${meanings[kind].meaning} | ${meanings[kind].advice} |`,
    ),
    '',
    '## What may surprise',
    '',
    '| Such as | Class | Why |',
    '|---|---|---|',
    ...noted.map((rule) => `| ${cell(rule.samples[0] ?? '')} | \`${rule.is}\` | ${cell(rule.note ?? '')} |`),
    '',
    'This page is made from the rules: `npm run -s classification-page > docs/classification.md`.',
    '',
  ].join('\n');
}

if (import.meta.main) process.stdout.write(classificationPage());
