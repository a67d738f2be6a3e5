import { randomBytes } from 'node:crypto';
import t from 'tap';
import { readConfig } from '../../src/config.ts';
import * as hold from '../../src/core/operations/hold.ts';
import { firstScreen, showFirstScreen } from '../../src/node/first-screen.ts';
import { buildAccount, buildVerifiedDomain } from '../support/build.ts';
import { openDatabase } from '../support/db.ts';
import { isLike } from './comparison.ts';
import { documentOf } from './reading.ts';

const node = {
  baseUrl: 'http://localhost:3000',
  submission: { submission: 2587, submissions: 2465 },
  admin: { userId: '', accountId: '', email: 'admin@localhost', password: 'none' as const },
};

t.test("the README shows the first start's screen as it is", async (t) => {
  const shown = documentOf('README.md').find(({ text }) => text.includes('Sendwright is ready'))?.text ?? '';
  const screen = firstScreen(readConfig({}), node, {
    sandboxKey: 'sk_live_x',
    password: 'generated',
    onHold: false,
    canSend: true,
  });
  t.ok(isLike(shown.trim(), screen.trim(), new Map()), screen);
});

t.test('a node with only some roles says which, and shows nothing that it does not serve', async (t) => {
  const screenOf = (env: Record<string, string>, password: string | null = null, canSend = false) =>
    firstScreen(
      readConfig(env),
      { ...node, submission: { submission: null, submissions: null } },
      { sandboxKey: null, password, onHold: false, canSend },
    );
  const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.com' };
  const sender = screenOf({ ...direct, ROLES: 'mta,webhooks' });
  t.match(sender, /ready \(delivering to the internet as mail\.example\.com\)/);
  t.match(sender, '    This node    delivers mail; calls webhooks   (ROLES=mta,webhooks)\n');
  t.match(sender, 'The dashboard and the API run on the nodes whose ROLES include api.');
  t.notMatch(sender, /Dashboard {2}|Reference|Admin login|Next: |curl|localhost:3000/);
  t.match(screenOf({ ...direct, ROLES: 'mta' }, 'generated'), /Admin login {2}admin@localhost \/ generated/);

  const served = screenOf({ ...direct, ROLES: 'api,smtp' });
  t.match(served, /ready \(mail goes to the internet as /);
  t.match(served, /This node .*serves the API and the dashboard; accepts mail, .*\(ROLES=api,smtp\)\n {4}Dashboard /);
  t.match(served, /Admin login.*Next: log in/s);
  t.notMatch(screenOf(direct), 'This node');

  const running = screenOf(direct, null, true);
  t.match(running, /Admin login {2}[^\n]+\n\n {2}Stop with Ctrl-C/);
  t.notMatch(running, /Next: |curl/, 'where a domain is verified nobody needs the first steps again');
});

t.test('a rehearsal of direct mode does not claim to deliver to the internet', async (t) => {
  const screenOf = (env: Record<string, string>) =>
    firstScreen(readConfig({ DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.test', ...env }), node, {
      sandboxKey: null,
      password: null,
      onHold: false,
      canSend: false,
    });
  const internet = 'delivering to the internet as mail.test';
  t.match(screenOf({ SENDING_IPS: '127.0.0.1,::1', MX_PORT: '2526' }), 'delivering to this machine alone as mail.test');
  t.match(screenOf({ MX_PORT: '2526' }), 'delivering to port 2526 of MX hosts as mail.test');
  t.match(screenOf({ SENDING_IPS: '127.0.0.1,192.0.2.9' }), internet);
  t.match(screenOf({ DNS_SERVERS: '127.0.0.1' }), internet, "a resolver of one's own answers for all of it");
});

t.test('settings without effect, or with less than expected, are reported', async (t) => {
  const screenOf = (env: Record<string, string>) =>
    firstScreen(readConfig(env), node, { sandboxKey: 'sk_live_x', password: null, onHold: false, canSend: true });
  const off = { INBOUND_SMTP_PORT: '0', SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' };
  const files = { SMTP_TLS_CERT: '/cert.pem', SMTP_TLS_KEY: '/key.pem' };
  const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.com' };
  const brief = { RETRY_SCHEDULE: '1m,5m', RETRY_FOR: '59s' };
  const ips = { SENDING_IPS: '192.0.2.9' };

  t.match(screenOf(ips), /\n {4}Note {9}SENDING_IPS has no effect in the sandbox: /);
  t.match(screenOf(brief), /\n {4}Note {9}RETRY_FOR is shorter than the first delay of RETRY_SCHEDULE: /);
  t.match(screenOf({ ...files, ...off }), /\n {4}Note {9}SMTP_TLS_CERT has no effect: .*SUBMISSIONS_PORT are 0\n/);
  t.match(screenOf({ ...brief, ...ips }), /\n {4}Note {9}SENDING_IPS .*\n {17}RETRY_FOR /, 'one below the other');
  t.match(
    screenOf({ DELIVERY_MOD: 'direct', http_port: '80', RETRY_FRO: '1h' }),
    / {4}Note {9}DELIVERY_MOD has no effect: did you mean DELIVERY_MODE\?\n {17}http_port .* HTTP_PORT\?\n {17}RETRY_FRO .* RETRY_FOR\?\n/,
  );
  for (const meant of [
    { ROLE: 'admin', ROLES: 'api,mta,webhooks,smtp' },
    { LOG_LEVE: '', MAIL_HOST: 'mail.example.com', DATABASE: 'x', PORT: '80' },
    { ...direct, ...ips },
    { ...direct, ...brief, ROLES: 'api,smtp' },
    { RETRY_FOR: '1m', RETRY_SCHEDULE: '1m' },
    { ...files, ...off, SUBMISSION_PORT: '2587' },
    { ...direct, ...files, ...off, ROLES: 'api' },
  ])
    t.notMatch(screenOf(meant), ' Note ', JSON.stringify(meant));
});

t.test('a service that is on hold says so, also if an earlier start or a command began the hold', async (t) => {
  const db = await openDatabase(t);
  const screenOf = async () => {
    let screen = '';
    const admin = { ...node.admin, password: 'earlier' as const };
    await showFirstScreen(readConfig({}), { ...node, admin, db }, 'sk_live_x', (text) => {
      screen = text;
    });
    return screen;
  };
  t.notMatch(await screenOf(), 'Note');
  await hold.begin(db);
  t.match(await screenOf(), /\n {4}Note {9}nothing is sent .* release --waiting send, or --waiting fail\n/);
});

t.test("a live server with no verified domain but the sandbox's is told to add one", async (t) => {
  const db = await openDatabase(t);
  const { id: accountId } = await buildAccount(db);
  const screen = async (env: Record<string, string>, sandboxKey: string | null) => {
    const said: string[] = [];
    const admin = { ...node.admin, password: 'earlier' as const };
    await showFirstScreen(readConfig(env), { ...node, admin, db }, sandboxKey, (text) => said.push(text));
    return said.join('');
  };
  const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.com' };
  const encryptionKey = randomBytes(32);
  await buildVerifiedDomain(db, accountId, encryptionKey, 'example.test');
  t.match(await screen(direct, null), /Next: log in, add a sending domain/, 'nobody can publish records below .test');
  t.notMatch(await screen({}, 'sk_live_x'), 'Next: ', 'in the sandbox it sends');
  await buildVerifiedDomain(db, accountId, encryptionKey, 'shop.example.com');
  t.notMatch(await screen(direct, null), 'Next: ');
});
