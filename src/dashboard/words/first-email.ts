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
  if (language === 'curl') return call(baseUrl, key, { ...body, to: [body.to] });
  return programs[language](`${baseUrl}/api/v1/emails`, key, body);
}

type Program = (url: string, key: string, body: Record<string, string>) => string;

/** As a string in JavaScript, Python and PHP. */
const quoted = (text: string) => `'${text.replaceAll(/[\\']/g, '\\$&')}'`;

const programs: Record<Exclude<Language, 'curl'>, Program> = {
  'Node.js': (url, key, body) =>
    [
      '// node send.mjs',
      `const response = await fetch(${quoted(url)}, {`,
      "  method: 'POST',",
      `  headers: { 'X-API-Key': ${quoted(key)}, 'Content-Type': 'application/json' },`,
      '  body: JSON.stringify({',
      ...Object.entries(body).map(([name, value]) => `    ${name}: ${quoted(value)},`),
      '  }),',
      '});',
      'console.log(await response.json());',
    ].join('\n'),
  Python: (url, key, body) =>
    [
      '# python3 send.py',
      'import json, urllib.request',
      '',
      'request = urllib.request.Request(',
      `    ${quoted(url)},`,
      `    headers={'X-API-Key': ${quoted(key)}, 'Content-Type': 'application/json'},`,
      '    data=json.dumps({',
      ...Object.entries(body).map(([name, value]) => `        '${name}': ${quoted(value)},`),
      '    }).encode(),',
      ')',
      'print(urllib.request.urlopen(request).read().decode())',
    ].join('\n'),
  PHP: (url, key, body) =>
    [
      '<?php // php send.php',
      "$context = stream_context_create(['http' => [",
      "    'method' => 'POST',",
      `    'header' => [${quoted(`X-API-Key: ${key}`)}, 'Content-Type: application/json'],`,
      "    'content' => json_encode([",
      ...Object.entries(body).map(([name, value]) => `        '${name}' => ${quoted(value)},`),
      '    ]),',
      "    'ignore_errors' => true,",
      ']]);',
      `echo file_get_contents(${quoted(url)}, false, $context);`,
    ].join('\n'),
};
