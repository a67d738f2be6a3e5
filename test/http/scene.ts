import type { Test } from 'tap';
import { newId } from '../../src/ids.ts';
import { createUnsubscribeToken } from '../../src/mail/links/token.ts';
import { show } from '../mail/payloads.ts';
import { buildAccount, buildSender, unsubscribeKey } from '../support/build.ts';
import type { operations } from '../support/contract.ts';
import { type Answer, type CallOptions, eventually, startTestNode, type TestNode } from '../support/node.ts';
import { encryptionKey, sharedNode } from '../support/shared-node.ts';

export { encryptionKey };

export type Fields = Record<string, unknown>;
/** Changes to a good email, and the detail that they are refused with. */
export type Refusal = [fields: Fields, detail: string | RegExp];

/** An account that can send, on the shared node unless another is given. Without the role `mta` nothing is delivered, and every job stays to be counted. */
export async function startMailer(roles = 'api', own?: TestNode) {
  const node = own ?? (await sharedNode(roles));
  const sender = await buildSender(node.db, encryptionKey);
  const fields = { from: sender.from, to: ['a@b.test'], subject: 's', text: 't' };
  return {
    ...sender,
    node,
    fields,
    send: (changed: Fields | string) =>
      node.call('POST', '/api/v1/emails', {
        key: sender.key,
        body: typeof changed === 'string' ? changed : { ...fields, ...changed },
      }),
  };
}

/** The number of rows in the tables that a request to send writes, without jobs, which a node that delivers removes. */
export async function storedRows(node: TestNode) {
  const [row] = await node.db.query<Record<string, string>>({
    text: `SELECT (SELECT count(*) FROM emails) AS emails, (SELECT count(*) FROM recipients) AS recipients,
                  (SELECT count(*) FROM email_contents) AS contents, (SELECT count(*) FROM attachments) AS attachments,
                  (SELECT count(*) FROM idempotency_keys) AS keys`,
  });
  return row;
}

export async function stored(node: TestNode) {
  const [queued] = await node.db.query<{ jobs: string }>({ text: 'SELECT count(*) AS jobs FROM pgboss.job' });
  return { ...(await storedRows(node)), ...queued } as Record<string, string>;
}

/** Every case gets a 400 of the documented form, and afterwards nothing is stored. */
export async function refuseAll(
  t: Test,
  { node, send }: Awaited<ReturnType<typeof startMailer>>,
  cases: Refusal[],
): Promise<void> {
  const before = await stored(node);
  for (const [fields, detail] of cases) {
    const { status, body } = await send(fields);
    const what = show(JSON.stringify(fields));
    t.match([status, body.error, body.detail], [400, 'invalid request', detail], what);
    t.strictSame(Object.keys(body), ['error', 'detail'], what);
    t.match(body.detail, /^\P{C}{1,300}$/u, what);
  }
  t.strictSame(await stored(node), before, 'nothing is stored');
}

/** The fields of an email with one attachment. */
export const attach = (fields: Fields): Fields => ({
  attachments: [{ filename: 'a.txt', content: 'aGk=', ...fields }],
});

/** Repeats a call that is told "unavailable", as clients do: on a busy machine some of many calls wait too long for the database. */
export const served = (ask: () => Promise<Answer>): Promise<Answer> =>
  eventually(async () => {
    const answer = await ask();
    return answer.status !== 503 && answer;
  }, 240_000);

/** An ISO timestamp this far from now. */
export const at = (ms: number) => new Date(Date.now() + ms).toISOString();

/** A new account, with calls of its member below `/api/v1/domains`. */
export async function manageDomains(node: TestNode) {
  const { id, email, password } = await buildAccount(node.db);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  return {
    id,
    call: (method: string, path: string, body?: unknown) =>
      node.call(method, `/api/v1/domains${path}`, { token, body }),
  };
}

/** A new account on the shared node, with calls of its member below `/api/v1`. */
export async function manageAccount() {
  const node = await sharedNode('api');
  const { email, password } = await buildAccount(node.db);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  return (method: string, path: string, body?: unknown) => node.call(method, `/api/v1${path}`, { token, body });
}

/** Makes an example of a request in the reference valid today. */
export const today = (example: unknown) => {
  const body = example as Fields;
  return body.scheduled_at ? { ...body, scheduled_at: at(3_600_000) } : body;
};

/** One of each noun that has an id, for a sender who is logged in: the ids by the name in the path. */
export async function buildNouns(
  node: TestNode,
  { account, domainId, from, ...credentials }: Awaited<ReturnType<typeof buildSender>> & { token: string },
  url = 'https://hooks.example.com/',
): Promise<Record<string, string>> {
  const { key, token } = credentials;
  const post = async (path: string, body: Fields) =>
    (await node.call('POST', `/api/v1${path}`, { token, key, body })).body;
  const { api_key: apiKey } = await post('/keys', { name: 'n' });
  const { template } = await post('/templates', { name: 'n', text: 't' });
  const { webhook } = await post('/webhooks', { url, events: ['email.queued'] });
  const { email } = await post('/emails', {
    from,
    to: 'a@b.test',
    subject: 's',
    text: 't',
    scheduled_at: at(3_600_000),
  });
  // The endpoint already exists, so it is called for this email.
  const { deliveries } = (await node.call('GET', '/api/v1/webhook-deliveries', { token })).body;
  const { dkim_keys: dkimKeys } = await post(`/domains/${domainId}/rotate-dkim`, { algorithm: 'ed25519' });
  const { suppression } = await post('/suppressions', { address: 'them@b.test' });
  const message = await node.db.prisma.sandboxMessage.create({
    data: {
      id: newId(),
      accountId: account.id,
      mailFrom: 'a@b.test',
      rcptTo: ['c@d.test'],
      subject: 's',
      headerFrom: 'a@b.test',
      dkim: [],
      size: 1,
      raw: new Uint8Array(1),
    },
  });
  const erasure = await node.db.prisma.erasure.create({
    data: { id: newId(), accountId: account.id, addressHash: newId(), keepsSuppression: true, doneAt: new Date() },
  });
  return {
    accounts: account.id,
    erasures: erasure.id,
    emails: email.id,
    keys: apiKey.id,
    domains: domainId,
    'dkim-keys': dkimKeys[0].id,
    destinations: 'b.test',
    templates: template.id,
    webhooks: webhook.id,
    suppressions: suppression.address,
    'webhook-deliveries': deliveries[0].id,
    messages: message.id,
    unsubscribe: createUnsubscribeToken(unsubscribeKey(encryptionKey), { emailId: email.id, position: 0 }),
  };
}

export type DescribedOperation = (typeof operations)[number];

/** A node on which every documented operation can be called: a sender with one of each noun, and the operator. */
export async function startCaller(t: Test, env: Record<string, string> = {}, hookUrl?: string) {
  const node = await startTestNode(t, { ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: 'api', ...env });
  const sender = await buildSender(node.db, encryptionKey);
  const logIn = async (email: string, password: string) =>
    (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body.token as string;
  const token = await logIn(sender.account.email, sender.account.password);
  const admin = await logIn('admin@example.test', node.adminPassword);
  const nouns = await buildNouns(node, { ...sender, token }, hookUrl);
  /** The path of an operation with this id, or with that of our own noun. */
  const pathOf = ({ path }: DescribedOperation, id?: string) =>
    path.replace(/\{\w+\}/, encodeURIComponent(id ?? nouns[path.split('/{')[0]?.split('/').at(-1) ?? ''] ?? ''));
  /** Credentials that may call it. */
  const credentialsFor = ({ path, operation }: DescribedOperation) => {
    if (operation.security.length === 0) return {};
    if (operation.security.some((one) => one.apiKey)) return { key: sender.key };
    return { token: path.startsWith('/api/v1/admin/') ? admin : token };
  };
  /** Another user after each change of a password: the tokens of the others stay valid. */
  let changing: { id: string; token: string } | undefined;
  const someoneElse = async () => {
    const { email, password } = await buildAccount(node.db);
    const { id } = await node.db.prisma.user.findUniqueOrThrow({ where: { email } });
    return { id, token: await logIn(email, password) };
  };
  const call = async (operation: DescribedOperation, options: CallOptions & { query?: string; id?: string } = {}) => {
    if (operation.operation.operationId !== 'changePassword' || 'token' in options) return callAs(operation, options);
    changing ??= await someoneElse();
    const answer = await callAs(operation, { token: changing.token, ...options });
    if (answer.status === 200) changing = await someoneElse();
    if (answer.status === 403)
      await node.db.prisma.loginFailure.deleteMany({ where: { subject: `password:${changing.id}` } });
    return answer;
  };
  const callAs = (operation: DescribedOperation, options: CallOptions & { query?: string; id?: string }) => {
    const { query = '', id, ...rest } = options;
    const path = `${pathOf(operation, id)}${query}`;
    return node.call(operation.method, path, { ...credentialsFor(operation), ...rest });
  };
  return { node, ...sender, token, admin, nouns, pathOf, credentialsFor, call, logIn };
}

// What a node writes by itself: that it is alive, what time it is, and counts that it adds up.
const ownTables = [
  'nodes',
  'key_holders',
  'time_seen',
  'email_counts',
  'email_count_changes',
  'destination_reports',
  'destination_deliveries',
];

/** The columns of these tables that a request changes; the others a node writes by itself, such as how far an erasure is. */
const askedFor: Record<string, string> = {
  erasures: 'OF address_hash',
  domains:
    'OF account_id, domain, status, verified_at, verification_token, tls, pool, dkim_selector, dkim_private_key, dkim_public_key',
};

/**
 * Records each written row from now on; the function returns which tables had any since its last call, once committed.
 * The triggers stay, because dropping one locks the partitions before their table, against the order of the node's statements.
 */
export async function watchTables(node: TestNode): Promise<() => Promise<string[]>> {
  const tables = await node.db.query<{ name: string }>({
    text: `SELECT oid::regclass::text AS name FROM pg_class
            WHERE relkind IN ('r', 'p') AND NOT relispartition AND relname <> ALL($1)
              AND (relnamespace = 'public'::regnamespace OR oid = 'pgboss.job'::regclass)`,
    values: [ownTables],
  });
  await node.db.query({
    text: `CREATE TABLE noted (what text);
           CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN INSERT INTO noted VALUES (TG_OP || ' ' || TG_TABLE_NAME); RETURN NULL; END $$;
           CREATE FUNCTION unlooked() RETURNS trigger LANGUAGE plpgsql AS
           $$ BEGIN NEW.next_check_at := NULL; RETURN NEW; END $$`,
  });
  // The node looks at domains by itself, and writes down what it found.
  const unlooked =
    'CREATE TRIGGER unlooked BEFORE INSERT OR UPDATE ON domains FOR EACH ROW EXECUTE FUNCTION unlooked()';
  // Each for itself: a transaction that locks all these tables could meet one of the node that locks two.
  await node.db.query({ text: unlooked });
  await node.db.query({ text: 'UPDATE domains SET next_check_at = NULL' });
  for (const { name } of tables)
    await node.db.query({
      text: `CREATE TRIGGER noted AFTER INSERT OR DELETE OR UPDATE ${askedFor[name] ?? ''} ON ${name} FOR EACH ROW EXECUTE FUNCTION note()`,
    });
  return async () => {
    const noted = await node.db.query<{ what: string }>({ text: 'DELETE FROM noted RETURNING what' });
    return [...new Set(noted.map(({ what }) => what))];
  };
}
