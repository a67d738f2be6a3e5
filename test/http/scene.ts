import type { Test } from 'tap';
import { show } from '../mail/payloads.ts';
import { buildAccount, buildSender } from '../support/build.ts';
import { startTestNode, type TestNode } from '../support/node.ts';

export type Fields = Record<string, unknown>;
/** Fields on top of those of a good email, and the detail that they are refused with. */
export type Refusal = [fields: Fields, detail: string | RegExp];

export const encryptionKey = Buffer.alloc(32, 7);

/** A node with an account that can send. Without the role `mta` nothing is delivered, and every job stays to be counted. */
export async function startMailer(t: Test, roles = 'api') {
  const node = await startTestNode(t, { ENCRYPTION_KEY: encryptionKey.toString('hex'), ROLES: roles });
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

export async function stored(node: TestNode) {
  const [row] = await node.db.query<Record<string, string>>({
    text: `SELECT (SELECT count(*) FROM emails) AS emails, (SELECT count(*) FROM recipients) AS recipients,
                  (SELECT count(*) FROM email_contents) AS contents, (SELECT count(*) FROM attachments) AS attachments,
                  (SELECT count(*) FROM pgboss.job) AS jobs`,
  });
  return row;
}

/** Every case is a 400 of the documented shape, and when all are through nothing is in the database. */
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
    t.match(body.detail, /^[ -~]{1,300}$/, what);
  }
  t.strictSame(await stored(node), before, 'nothing is stored');
}

/** The fields of an email with one attachment. */
export const attach = (fields: Fields): Fields => ({
  attachments: [{ filename: 'a.txt', content: 'aGk=', ...fields }],
});

/** An ISO timestamp so far from now. */
export const at = (ms: number) => new Date(Date.now() + ms).toISOString();

/** A new account as its member calls it, below `/api/v1/domains`. */
export async function manageDomains(node: TestNode) {
  const { id, email, password } = await buildAccount(node.db);
  const { token } = (await node.call('POST', '/api/v1/auth/login', { body: { email, password } })).body;
  return {
    id,
    call: (method: string, path: string, body?: unknown) =>
      node.call(method, `/api/v1/domains${path}`, { token, body }),
  };
}
