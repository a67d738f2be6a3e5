import { createTransport } from 'nodemailer';
import t from 'tap';
import type { Database } from '../../src/db/client.ts';
import { createLog } from '../../src/log.ts';
import { startMailbox } from '../../src/sandbox/mailbox.ts';

t.test(
  'while the database is away the sandbox says so once, in one line, and a defect is still an error',
  async (t) => {
    const lines: { level: number; error: string; msg: string }[] = [];
    const out = { write: (line: string) => lines.push(JSON.parse(line)) } as unknown as NodeJS.WriteStream;
    let failure: Error = Object.assign(new Error('\nInvalid `prisma` invocation:\n\n  no server'), { code: 'P1001' });
    const fail = () => Promise.reject(failure);
    const db = {
      query: fail,
      transaction: fail,
      prisma: new Proxy({}, { get: () => new Proxy({}, { get: () => fail }) }),
    };
    const mailbox = await startMailbox({
      db: db as unknown as Database,
      log: createLog('warn', out),
      returns: { send: () => undefined } as never,
      returnPath: { key: Buffer.alloc(32), host: 'bounces.test' },
      resolve: (() => Promise.reject(new Error('no names'))) as never,
    });
    t.teardown(() => mailbox.close());
    const transport = createTransport({ host: '127.0.0.1', port: mailbox.port, secure: false, ignoreTLS: true });
    const send = () =>
      transport.sendMail({ from: 'a@b.test', to: 'c@d.test', subject: 's', text: 't' }).then(
        () => 'sent',
        ({ response }) => String(response),
      );
    for (const _ of [1, 2, 3]) t.match(await send(), /^451 4\.3\.0 the sandbox could not store the message/);
    t.match(lines, [{ level: 40, error: 'Invalid `prisma` invocation: no server', msg: /database is away/ }]);
    t.equal(lines.length, 1);
    failure = new Error('a defect');
    await send();
    t.match(lines[1], { level: 50, error: 'a defect', msg: 'the sandbox could not store a message' });
  },
);
