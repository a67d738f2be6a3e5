import type { Session } from '../../client/index.ts';
import { call, ownAddress, someKey } from './commands.ts';

/** What a first email is sent with: nothing that the language does not come with. */
export const languages = ['curl', 'Node.js', 'Python', 'PHP'] as const;
export type Language = (typeof languages)[number];

/** A first email, to paste into a shell or to run as a file. */
export function firstEmail(
  session: Session,
  from = 'your-domain.example',
  key = someKey,
  language: Language = 'curl',
): string {
  const body = {
    from: `Me <hello@${from}>`,
    to: ownAddress(session) ?? 'you@…',
    subject: 'Hello',
    html: '<p>It works.</p>',
  };
  const { base_url: baseUrl } = session.service;
  return language === 'curl' ? call(baseUrl, key, { ...body, to: [body.to] }) : programs[language](baseUrl, key, body);
}

type Program = (baseUrl: string, key: string, body: Record<string, string>) => string;

/** As a string in JavaScript and in Python. */
const quoted = (text: string) => `'${escaped(text)}'`;
const escaped = (text: string) => text.replaceAll(/[\\']/g, '\\$&');

const programs: Record<Exclude<Language, 'curl'>, Program> = {
  'Node.js': (baseUrl, key, body) =>
    [
      '// node send.mjs',
      `const response = await fetch(${quoted(`${baseUrl}/api/v1/emails`)}, {`,
      "  method: 'POST',",
      `  headers: { 'X-API-Key': ${quoted(key)}, 'Content-Type': 'application/json' },`,
      '  body: JSON.stringify({',
      ...Object.entries(body).map(([name, value]) => `    ${name}: ${quoted(value)},`),
      '  }),',
      '});',
      'console.log(await response.json());',
    ].join('\n'),
  Python: (baseUrl, key, body) =>
    [
      '# python3 send.py',
      'import json, urllib.request',
      '',
      'request = urllib.request.Request(',
      `    ${quoted(`${baseUrl}/api/v1/emails`)},`,
      `    headers={'X-API-Key': ${quoted(key)}, 'Content-Type': 'application/json'},`,
      '    data=json.dumps({',
      ...Object.entries(body).map(([name, value]) => `        '${name}': ${quoted(value)},`),
      '    }).encode(),',
      ')',
      'print(urllib.request.urlopen(request).read().decode())',
    ].join('\n'),
  // In single quotes PHP leaves a dollar sign alone.
  PHP: (baseUrl, key, body) =>
    [
      '<?php // php send.php',
      "$context = stream_context_create(['http' => [",
      "    'method' => 'POST',",
      `    'header' => ['X-API-Key: ${escaped(key)}', 'Content-Type: application/json'],`,
      "    'content' => json_encode([",
      ...Object.entries(body).map(([name, value]) => `        '${name}' => ${quoted(value)},`),
      '    ]),',
      "    'ignore_errors' => true,",
      ']]);',
      `echo file_get_contents(${quoted(`${baseUrl}/api/v1/emails`)}, false, $context);`,
    ].join('\n'),
};
