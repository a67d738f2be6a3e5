import t from 'tap';
import { eventually, startTestNode } from '../support/node.ts';
import { administer } from '../support/start.ts';

t.test('mail is refused while the disk of the database is full, and the node is not ready', async (t) => {
  const node = await startTestNode(t);
  const login = await node.call('POST', '/api/v1/auth/login', {
    body: { email: node.admin.email, password: node.adminPassword },
  });
  const token = String(login.body.token);
  const sending = await node.call('POST', '/api/v1/domains', { token, body: { domain: 'example.test' } });
  await node.call('POST', `/api/v1/domains/${(sending.body.domain as { id: string }).id}/verify`, { token });
  const body = { from: 'a@example.test', to: 'b@anywhere.test', subject: 's', text: 't' };
  const send = () => node.call('POST', '/api/v1/emails', { token, body });
  t.equal((await send()).status, 200);
  t.equal((await node.call('GET', '/readyz')).status, 200);

  await node.db.query({
    text: `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
           CREATE TRIGGER full_disk BEFORE INSERT ON emails FOR EACH ROW EXECUTE FUNCTION full_disk()`,
  });
  t.match(await send(), { status: 503, body: { error: 'unavailable' } });
  t.equal((await node.call('GET', '/readyz')).status, 503);
  t.equal((await node.call('GET', '/healthz')).status, 200);

  // Dropping the trigger would lock the partitions before their table, against the order of everything that reads emails.
  await node.db.query({
    text: `CREATE OR REPLACE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
  });
  t.equal((await send()).status, 200);
  await eventually(async () => (await node.call('GET', '/readyz')).status === 200);
});

t.test('a node whose database has become a standby is not ready', async (t) => {
  const node = await startTestNode(t);
  t.equal((await node.call('GET', '/readyz')).status, 200);
  const name = new URL(node.databaseUrl).pathname.slice(1);
  const anew = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`;
  await administer([`ALTER DATABASE ${name} SET default_transaction_read_only = on`, anew]);
  // An answer of 503 may also come from a connection that was just ended: it is the third in a row that counts.
  let inARow = 0;
  await eventually(async () => {
    inARow = (await node.call('GET', '/readyz')).status === 503 ? inARow + 1 : 0;
    return inARow === 3;
  });
  await administer([`ALTER DATABASE ${name} RESET default_transaction_read_only`, anew]);
  await eventually(async () => (await node.call('GET', '/readyz')).status === 200);
});
