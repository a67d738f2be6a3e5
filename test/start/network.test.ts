import t from 'tap';
import { createDatabase } from '../support/db.ts';
import { testEnv } from '../support/node.ts';
import { startSendwright } from '../support/process.ts';
import { makeFolder, refusalOf, takePort } from '../support/start.ts';

const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'out.sender.test', DNS_SERVERS: '127.0.0.1:1' };

t.test('SENDING_IPS that this machine does not have', async (t) => {
  const env = testEnv(await createDatabase(), { ...direct, DATA_DIR: await makeFolder(t) });
  for (const address of ['192.0.2.9', '2001:db8::9']) {
    t.equal(
      await refusalOf({ ...env, SENDING_IPS: `127.0.0.1,${address}` }),
      `SENDING_IPS: ${address} is not an address of this machine: add it to a network interface, or remove it from the list; behind a NAT leave SENDING_IPS unset`,
    );
  }
  for (const more of [{ SENDING_IPS: '127.0.0.1' }, { SENDING_IPS: '192.0.2.9', ROLES: 'api' }]) {
    const app = await startSendwright({ ...env, ...more });
    t.equal(await app.end('SIGTERM'), 0, 'one of our own, and a node that sends nothing itself');
  }
});

t.test('an HTTP_HOST that this machine does not have', async (t) => {
  const env = testEnv(await createDatabase(), { DATA_DIR: await makeFolder(t), HTTP_HOST: '192.0.2.1' });
  t.match(
    await refusalOf(env),
    /^cannot listen on HTTP_HOST 192\.0\.2\.1 \(.*\): set it to an address of this machine$/,
  );
});

t.test('ports that other programs listen on are all named at once', async (t) => {
  const env = testEnv(await createDatabase(), { DATA_DIR: await makeFolder(t) });
  const [http, metrics] = [await takePort(t), await takePort(t)];
  const [submission, submissions] = [await takePort(t), await takePort(t)];
  const taken = { HTTP_PORT: http, SUBMISSION_PORT: submission, SUBMISSIONS_PORT: submissions, METRICS_PORT: metrics };
  t.equal(
    await refusalOf({ ...env, ...taken }),
    `SUBMISSION_PORT ${submission}, SUBMISSIONS_PORT ${submissions}, HTTP_PORT ${http} and METRICS_PORT ${metrics} are in use by other programs: stop them, or set these variables to free ports`,
  );
  t.equal(
    await refusalOf({ ...env, METRICS_PORT: metrics }),
    `METRICS_PORT ${metrics} is in use by another program: stop it, or set METRICS_PORT to a free one`,
  );
});
