import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const root = fileURLToPath(new URL('../../', import.meta.url));
const tsc = join(root, 'node_modules/typescript/bin/tsc');

/** A project with nothing but the client, as `npm run build:client` makes it. */
function project(t: { teardown(work: () => void): void }): string {
  const folder = mkdtempSync(join(tmpdir(), 'sendwright client '));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const installed = join(folder, 'node_modules/sendwright');
  mkdirSync(installed, { recursive: true });
  execFileSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.client.json'), '--outDir', installed]);
  copyFileSync(join(root, 'src/client/package.json'), join(installed, 'package.json'));
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}');
  return folder;
}

const program = `
import { type Email, type SendRequest, Sendwright, SendwrightError, verifyWebhook } from 'sendwright/client';

export async function run(sendwright: Sendwright) {
  const { email } = await sendwright.emails.send(
    { from: 'a@b.c', to: 'd@e.f', subject: 's', html: 'h' },
    { idempotencyKey: 'order-1' },
  );
  const found: Email = email;
  for await (const one of sendwright.emails.all({ status: 'sent' })) console.log(one.scheduled_at, found.to);
  const batch = await sendwright.emails.sendBatch([{ to: 'b@c.d', template: { alias: 'x', variables: { A: 1 } } }]);
  const detail: string | undefined = batch.errors[0]?.detail;
  const event = await verifyWebhook({ headers: new Headers(), body: '', secret: 's' });
  if (event.type === 'webhook.test') console.log(event.data.webhook_id, detail);
  else console.log(event.data.email_id);
  // @ts-expect-error neither html nor text
  const bare: SendRequest = { from: 'a@b.c', to: 'd@e.f', subject: 's' };
  // @ts-expect-error no recipient
  await sendwright.emails.send({ from: 'a@b.c', subject: 's', text: 't' });
  // @ts-expect-error a field that there is none of
  await sendwright.emails.send({ from: 'a@b.c', to: 'b@c.d', subject: 's', text: 't', replyTo: 'x' });
  // @ts-expect-error a status that there is none of
  await sendwright.emails.list({ status: 'lost' });
  // @ts-expect-error an event that there is none of
  await sendwright.webhooks.create({ url: 'https://a.test', events: ['email.opened'] });
  return bare;
}

export const isRefused = (error: unknown) => error instanceof SendwrightError && error.status === 400;
`;

/** Mistakes, and what the compiler says about them. */
const mistakes: [program: string, words: RegExp][] = [
  [`emails.send({ from: 'a@b.c', to: 'd@e.f', subject: 's' })`, /Property 'text' is missing/],
  [`emails.send({ from: 'a@b.c', to: 'd@e.f', text: 't' })`, /Property 'subject' is missing/],
  [`emails.send({ from: 'a@b.c', subject: 's', text: 't' })`, /Property 'to' is missing/],
  [`emails.send({ from: 'a@b.c', to: 'd@e.f', subject: 's', text: 't', replyTo: 'x' })`, /mean to write 'reply_to'/],
  [`emails.send({ to: 'd@e.f', template: { alias: 'x', variables: { A: true } } })`, /'true' is not assignable/],
  [`emails.resend('id', { idempotency_key: 'x' })`, /'idempotency_key' does not exist/],
];

t.test('the compiler explains mistakes', async (t) => {
  const folder = project(t);
  const head = `import { Sendwright } from 'sendwright/client';\nconst { emails } = new Sendwright({ baseUrl: 'https://a.test' });\n`;
  writeFileSync(join(folder, 'wrong.ts'), head + mistakes.map(([program]) => `void ${program};\n`).join(''));
  const settings = [
    '--strict',
    '--noEmit',
    '--module',
    'esnext',
    '--moduleResolution',
    'bundler',
    '--target',
    'es2022',
  ];
  const { stdout } = spawnSync(process.execPath, [tsc, ...settings, 'wrong.ts'], { cwd: folder, encoding: 'utf8' });
  for (const [index, [program, words]] of mistakes.entries()) {
    const [, said = ''] = new RegExp(`^wrong\\.ts\\(${index + 3},.*((?:\\n .*)*)`, 'm').exec(stdout) ?? [];
    const [line = ''] = new RegExp(`^wrong\\.ts\\(${index + 3},.*`, 'm').exec(stdout) ?? [];
    t.match(line + said, words, program);
  }
});

t.test('the build can be installed, run and compiled against', async (t) => {
  const folder = project(t);
  writeFileSync(
    join(folder, 'run.js'),
    `import { Sendwright, SendwrightError, verifyWebhook } from 'sendwright/client';
     const client = new Sendwright({ baseUrl: 'http://127.0.0.1:1', maxAttempts: 1 });
     const error = await client.service.isAlive().catch((error) => error);
     console.log(error instanceof SendwrightError, typeof verifyWebhook);`,
  );
  t.equal(execFileSync(process.execPath, ['run.js'], { cwd: folder, encoding: 'utf8' }), 'true function\n');

  writeFileSync(join(folder, 'program.ts'), program);
  mkdirSync(join(folder, 'node_modules/@types'));
  symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
  // Only TypeScript's own libraries are not checked.
  const strict = {
    strict: true,
    noEmit: true,
    noUncheckedIndexedAccess: true,
    exactOptionalPropertyTypes: true,
    skipDefaultLibCheck: true,
  };
  const settings = {
    'Node, with its own types': { module: 'NodeNext', target: 'ES2022', lib: ['ES2022'], types: ['node'] },
    'a bundler, with those of browsers': { module: 'ESNext', moduleResolution: 'bundler', target: 'ES2022', types: [] },
  };
  for (const [name, compilerOptions] of Object.entries(settings)) {
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({ compilerOptions: { ...strict, ...compilerOptions }, files: ['program.ts'] }),
    );
    const { stdout, status } = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
    t.equal(stdout, '', name);
    t.equal(status, 0, name);
  }
});
