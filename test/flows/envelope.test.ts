import { access, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { domainToASCII } from 'node:url';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import t from 'tap';
import { AddressError, parseMailbox } from '../../src/mail/address/address.ts';
import { anyAddress, odd, plainAddress, unreachable } from '../mail/addresses.ts';
import { refused, show } from '../mail/payloads.ts';
import { hasPython, readAll } from '../mail/python.ts';
import { startDirectNode } from '../support/direct.ts';
import { startHook } from '../support/hook.ts';
import { type Peer, startScriptedMx } from '../support/mx.ts';
import { eventually } from '../support/node.ts';
import { watchFiles } from '../support/opened-files.ts';

/** All that a server was told, split at each CRLF; and the messages. */
const commands: string[] = [];
const messages: Buffer[] = [];

async function receive(peer: Peer): Promise<void> {
  await peer.greet('PIPELINING', '8BITMIME', 'SMTPUTF8');
  for (;;) {
    const line = await peer.line();
    commands.push(Buffer.from(line, 'latin1').toString());
    if (line === 'QUIT') return void peer.socket.destroy();
    peer.send(line === 'DATA' ? '354 go\r\n' : '250 ok\r\n');
    if (line !== 'DATA') continue;
    const content = (await peer.until('\r\n.\r\n')).slice(0, -3);
    messages.push(Buffer.from(content.replaceAll('\r\n..', '\r\n.'), 'latin1'));
    peer.send('250 ok\r\n');
  }
}

const mx = await startScriptedMx(receive);
t.teardown(() => mx.close());
const node = await startDirectNode(t, { zone: { 'files.test': { A: ['127.0.0.1'] } }, mxPort: mx.port });

const ask = (fields: Record<string, unknown>) =>
  node.call('POST', '/api/v1/emails', {
    key: node.key,
    body: { from: node.from, to: ['a@b.test'], subject: 's', text: 't', ...fields },
  });
const emails = async () => (await node.call('GET', '/api/v1/emails?limit=1', { key: node.key })).body.count;
const settled = (ids: string[]) =>
  eventually(async () => {
    const all = await Promise.all(ids.map((id) => node.read(id)));
    return all.every(({ status }) => status !== 'queued') && all;
  });

const isTaken = (text: string): boolean => {
  try {
    parseMailbox(text);
    return true;
  } catch (error) {
    if (error instanceof AddressError) return false;
    throw error;
  }
};

/** The address in a text that is one, found without our parser. */
function meant(text: string): { local: string; domain: string } {
  const [, inner = text] = /<([^<>]*)> *$/.exec(text) ?? [];
  const [local = '', domain = ''] = inner.trim().split('@');
  return { local, domain: domainToASCII(domain) };
}

t.test('INJ-08, INJ-09: an address is refused, or sent to as it is, at the domain that was looked up', async (t) => {
  // To try others, set TEST_SEED.
  const seed = Number(process.env.TEST_SEED ?? 20261125);
  t.comment(`seed ${seed}`);
  const texts = [
    ...fc.sample(anyAddress, { numRuns: 500, seed }),
    ...fc.sample(plainAddress, { numRuns: 40, seed }),
    ...odd,
  ];
  // More addresses than we have time to call the API for: of those that it must refuse, some of each kind.
  const bad = [...new Set(texts.filter((text) => !isTaken(text)))].slice(-150);
  const before = await emails();
  for (const text of bad) {
    const { status, body } = await ask({ to: [text] });
    if (status !== 400 || !/^to\[0\]: /.test(body.detail)) t.fail(`${show(text)}: ${status} ${body.detail}`);
  }
  t.equal(await emails(), before, `${bad.length} were refused`);

  const good = new Map(texts.filter(isTaken).map((text) => [`${meant(text).local}@${meant(text).domain}`, text]));
  const domains = new Set([...good.values()].map((text) => meant(text).domain));
  for (const domain of domains) node.zone.set(domain, { MX: [[10, 'files.test']] });
  node.zone.queries.length = 0;
  const all = [...good.values()];
  const ids: string[] = [];
  for (let at = 0; at < all.length; at += 100) {
    const { status, body } = await ask({ to: all.slice(at, at + 50), bcc: all.slice(at + 50, at + 100) });
    t.equal(status, 200, body.detail);
    ids.push(body.email.id);
  }
  for (const email of await settled(ids)) t.equal(email.status, 'sent');

  const told = commands.splice(0);
  const rcpts = told.filter((line) => /^rcpt/i.test(line));
  t.strictSame(
    rcpts.toSorted(),
    [...good.keys()].map((address) => `RCPT TO:<${address}>`).toSorted(),
    `${good.size} recipients, each named once and unchanged`,
  );
  const others = told.filter((line) => !line.startsWith('RCPT TO:<'));
  t.strictSame(
    others.filter(
      (line) => !/^(?:MAIL FROM:<bounces\+\w+@[\w.]+>(?: BODY=8BITMIME| SMTPUTF8)*|DATA|RSET|QUIT)$/.test(line),
    ),
    [],
    'and nothing else was said',
  );
  const asked = node.zone.queries.filter((query) => query.startsWith('mx ')).map((query) => query.slice('mx '.length));
  t.strictSame([...new Set(asked)].toSorted(), [...domains].toSorted(), 'the domain looked up is the one sent to');
  t.ok(good.size > 60 && domains.size > 40);
  messages.length = 0;
});

t.test('SSRF-10: an address literal, a bare host or a port is refused in every address field', async (t) => {
  const before = await emails();
  node.zone.queries.length = 0;
  for (const address of unreachable) {
    for (const [field, value] of Object.entries({
      to: [address],
      cc: [address],
      bcc: address,
      reply_to: address,
      from: address,
    })) {
      const { status, body } = await ask({ [field]: value });
      if (status !== 400 || !body.detail.startsWith(field))
        t.fail(`${field} ${show(address)}: ${status} ${body.detail}`);
    }
  }
  t.equal(await emails(), before);
  t.strictSame(node.zone.queries, [], 'nothing was looked up');
});

/** File names, and how they arrive, or null if the call is refused. */
const names = (canary: string): [given: string, arrives: string | null][] => [
  [canary, 'canary.txt'],
  [`../../../../../../../..${canary}`, 'canary.txt'],
  [`file://${canary}`, 'canary.txt'],
  [`C:${canary.replaceAll('/', '\\')}`, 'canary.txt'],
  ['/etc/passwd', 'passwd'],
  ['../../etc/passwd', 'passwd'],
  ['..\\..\\boot.ini', 'boot.ini'],
  ['C:\\Windows\\win.ini', 'win.ini'],
  ['\\\\server\\share\\file.doc', 'file.doc'],
  ['....//....//x', 'x'],
  ['a/b\\c/d', 'd'],
  ['a"b.txt', 'a"b.txt'],
  ['"; filename="evil.exe', '"; filename="evil.exe'],
  ["a.txt; filename*=utf-8''evil.exe", "a.txt; filename*=utf-8''evil.exe"],
  // Encodings that readers decode by themselves.
  ['=?utf-8?Q?evil.exe?=', 'evil.exe'],
  ['=?utf-8?Q?=2E=2E=2Fetc=2Fpasswd?=', 'passwd'],
  ['=?utf-8?B?L2V0Yy9wYXNzd2Q=?=', 'passwd'],
  ['=?utf-8?Q?=3D=3Futf-8=3FQ=3F=2Fetc=2Fpasswd=3F=3D?=', 'passwd?='],
  ['=?utf-8?Q?a=0D=0AX-Evil:_1?=', null],
  ['=?utf-8?Q?exe=2E=E2=80=AEtxt?=', null],
  ['%2e%2e%2fpasswd', '%2e%2e%2fpasswd'],
  ['ünï 字 🚀.pdf', 'ünï 字 🚀.pdf'],
  ['$(id)`id`|id;id&', '$(id)`id`|id;id&'],
  ['-rf', '-rf'],
  ['__proto__', '__proto__'],
  ['constructor', 'constructor'],
  ['<b>.txt', '<b>.txt'],
  ['x'.repeat(255), 'x'.repeat(255)],
  ['ü'.repeat(255), 'ü'.repeat(255)],
  ...['.', '..', '...', '/', '\\', '../', 'a/..', 'a\\', ''].map((name): [string, null] => [name, null]),
  ...['x'.repeat(256), 'x'.repeat(4_096), 'exe.\u202etxt', '\u2066x'].map((name): [string, null] => [name, null]),
  ...[...refused].map((name): [string, null] => [`a${name}.txt`, null]),
];

t.test('INJ-03: a file name has no path when it arrives, and refers to no file here', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-canary-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const canary = join(folder, 'canary.txt');
  await writeFile(canary, 'what no mail may have');
  const watched = await watchFiles();
  if (!watched) t.comment('strace is missing or not permitted: the files that are opened are not checked');
  // Proof that opening it would be noticed.
  await access(join(folder, 'control'), 0).catch(() => {});

  const corpus = names(canary);
  const file = (filename: string, at: number) => ({ filename, content: Buffer.from(`file ${at}`).toString('base64') });
  for (const [at, [name, arrives]] of corpus.entries()) {
    if (arrives !== null) continue;
    const { status, body } = await ask({ attachments: [file(name, at)] });
    if (status !== 400 || !/^attachments\[0\]/.test(body.detail)) t.fail(`${show(name)}: ${status} ${body.detail}`);
  }
  const sent = corpus.flatMap(([name, arrives], at) => (arrives === null ? [] : [{ name, arrives, at }]));
  const ids: string[] = [];
  for (let start = 0; start < sent.length; start += 10) {
    const attachments = sent.slice(start, start + 10).map(({ name, at }) => file(name, at));
    const { status, body } = await ask({ to: ['a@files.test'], attachments });
    t.equal(status, 200, body.detail);
    ids.push(body.email.id);
  }
  await settled(ids);
  const opened = (await watched?.stop()) ?? [];

  const parsed = await Promise.all(messages.map((raw) => PostalMime.parse(raw)));
  const byPostalMime = parsed.flatMap(({ attachments }) =>
    attachments.map(({ filename, content }) => [Buffer.from(content as ArrayBuffer).toString(), filename]),
  );
  const byPython = hasPython
    ? readAll(messages).flatMap(({ parts }) =>
        parts
          .filter(({ disposition }) => disposition === 'attachment')
          .map(({ content, filename }) => [content.toString(), filename]),
      )
    : [];
  const expected = Object.fromEntries(sent.map(({ arrives, at }) => [`file ${at}`, arrives]));
  t.strictSame(Object.fromEntries(byPostalMime), expected);
  if (hasPython) t.strictSame(Object.fromEntries(byPython), expected, 'Python reads the same');
  if (!watched) return;
  t.ok(
    opened.some((line) => line.includes(join(folder, 'control'))),
    'an opened file is noticed',
  );
  const touched = opened.filter((line) => /canary\.txt|passwd|boot\.ini|win\.ini|evil\.exe|file\.doc/.test(line));
  t.strictSame(touched, [], 'no such file was opened');
});

t.test('a file is what its content says, not what a path or URL next to it refers to: INJ-05', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'sendwright-canary-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  const path = join(folder, 'canary.txt');
  const canary = 'what no mail may have';
  await writeFile(path, canary);
  const hook = await startHook(t, () => ({ status: 200, body: canary }));

  // The fields from which mail libraries read files, each one next to valid content, and all at once.
  const others: Record<string, unknown> = {
    path,
    href: hook.url,
    url: hook.url,
    raw: `Content-Type: text/plain\r\n\r\n${canary}`,
    file: path,
    stream: { path },
    data: { href: hook.url },
    src: `file://${path}`,
  };
  const attachments = [...Object.entries(others).map(([name, value]) => ({ [name]: value })), others].map(
    (fields, at) => ({ filename: `${at}.txt`, content: Buffer.from(`file ${at}`).toString('base64'), ...fields }),
  );
  const aside = {
    ...others,
    alternatives: [{ path }],
    icalEvent: { href: hook.url },
    amp: { path },
    watchHtml: { path },
  };
  const { status, body } = await ask({ to: ['a@files.test'], subject: 'content alone', attachments, ...aside });
  t.equal(status, 200, `unknown fields are left out: ${body.detail}`);
  await settled([body.email.id]);

  const raw = messages.findLast((one) => one.includes('Subject: content alone')) ?? Buffer.alloc(0);
  const parsed = await PostalMime.parse(raw);
  t.strictSame(
    parsed.attachments.map(({ filename, content }) => [filename, Buffer.from(content as ArrayBuffer).toString()]),
    attachments.map(({ filename }, at) => [filename, `file ${at}`]),
  );
  t.strictSame([parsed.text?.trim(), parsed.html], ['t', undefined]);
  for (const form of [canary, Buffer.from(canary).toString('base64').slice(0, 24)]) t.notOk(raw.includes(form), form);
  t.equal(hook.connections, 0, 'nothing was fetched');
});
