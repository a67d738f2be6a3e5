import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import t from 'tap';
import { connect, type Database } from '../../src/db/client.ts';
import { isUnavailable } from '../../src/db/errors.ts';
import { createLog, silentLog } from '../../src/log.ts';
import { createQueue } from '../../src/queue.ts';
import { createDatabase } from '../support/db.ts';
import { startGate, throughProxy } from '../support/gate.ts';

/** ErrorResponse and ReadyForQuery of PostgreSQL's protocol, as a session says that it was terminated. */
const fields = ['SFATAL', 'VFATAL', 'C57P01', 'Mterminating connection due to administrator command', ''].join('\0');
const fatal = Buffer.concat([Buffer.from('E'), uint32(4 + fields.length + 1), Buffer.from(`${fields}\0`)]);
const ready = Buffer.concat([Buffer.from('Z'), uint32(5)]);

const never = Number.POSITIVE_INFINITY;
const fallen = -1;

/** Ends one session, together with an answer of the database. */
class Axe {
  readonly #server: net.Server;
  readonly #target: URL;
  readonly #clients = new Set<Socket>();
  #left = never;

  private constructor(target: URL) {
    this.#target = target;
    this.#server = net.createServer((client) => this.#link(client));
  }

  static async open(databaseUrl: string): Promise<Axe> {
    const axe = new Axe(new URL(databaseUrl));
    axe.#server.listen(0, '127.0.0.1');
    await once(axe.#server, 'listening');
    return axe;
  }

  get url(): string {
    return throughProxy(this.#target, this.#server.address() as AddressInfo);
  }

  /** Where the axe falls: 0 is before the end of the next answer, 1 after it, 2 before the end of the one after that, and so on. */
  fallAt(place: number): void {
    this.#left = place;
  }

  get hasFallen(): boolean {
    return this.#left === fallen;
  }

  async close(): Promise<void> {
    for (const client of this.#clients) client.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #link(client: Socket): void {
    const upstream = net.connect(Number(this.#target.port), this.#target.hostname);
    this.#clients.add(client);
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      one.setNoDelay(true);
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
    client.on('close', () => this.#clients.delete(client));
    client.on('data', (chunk) => upstream.write(chunk));
    upstream.on('data', (chunk) => {
      // The last byte is the state of the transaction.
      const end = chunk.length - ready.length - 1;
      const isWhole = chunk.subarray(end, -1).equals(ready);
      if (!isWhole || this.#left > 1 || this.#left === fallen) {
        if (isWhole && this.#left > 1) this.#left -= 2;
        client.write(chunk);
        return;
      }
      client.end(Buffer.concat([this.#left === 0 ? chunk.subarray(0, end) : chunk, fatal]));
      this.#left = fallen;
      upstream.removeAllListeners('data').destroy();
    });
  }
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

const one = { text: 'SELECT 1' };

const uses: Record<string, (db: Database, url: string) => Promise<unknown>> = {
  'a statement': (db) => db.query(one),
  'a transaction': (db) => db.transaction((tx) => tx.query(one)),
  'a transaction that waits between its statements': (db) =>
    db.transaction(async (tx) => {
      await tx.query(one);
      await new Promise(setImmediate);
      await tx.query(one);
    }),
  'a session': (db) => db.session((session) => session.query(one), 20_000),
  "Prisma's statement": (db) => db.prisma.account.count(),
  "Prisma's transaction": (db) => db.prisma.$transaction([db.prisma.account.count(), db.prisma.account.count()]),
  "Prisma's transaction with work in it": (db) => db.prisma.$transaction(async (tx) => tx.account.count()),
};

/** The log lines about connections. */
function hearing() {
  const lines: string[] = [];
  const out = new PassThrough().on('data', (line) => lines.push(String(line)));
  return { lines, log: createLog('info', out as unknown as NodeJS.WriteStream) };
}

/** A session that fails is discarded with its connection. */
const discardConnection = (db: Database) =>
  db.session(() => Promise.reject(new Error('not to be kept'))).catch(() => undefined);

/** Rejections that do not say that the database is away. */
function surprises(results: PromiseSettledResult<unknown>[]): string[] {
  return results.flatMap((result) =>
    result.status === 'rejected' && !isUnavailable(result.reason) ? [String(result.reason?.stack)] : [],
  );
}

const axe = await Axe.open(await createDatabase());
t.teardown(() => axe.close());

for (const [name, use] of Object.entries(uses)) {
  for (const begun of ['on a new connection', 'on one that was just released']) {
    t.test(`QUE-09: a session that ends at any answer: ${name} ${begun}`, async (t) => {
      const { lines, log } = hearing();
      const db = connect(axe.url, log, 1);
      t.teardown(() => db.close());
      for (let place = 0; ; place += 1) {
        if (begun === 'on a new connection') await discardConnection(db);
        else await db.query(one);
        lines.length = 0;
        axe.fallAt(place);
        // The pool has one connection, which the second call waits for.
        const under = begun === 'on a new connection' ? [] : [db.query(one)];
        t.strictSame(surprises(await Promise.allSettled([...under, use(db, axe.url)])), []);
        const { hasFallen } = axe;
        axe.fallAt(never);
        t.strictSame(await db.query(one), [{ '?column?': 1 }], 'the ended one is not used again');
        t.strictSame(db.connections(), { busy: 0, idle: 1, waiting: 0 });
        t.ok(lines.length <= 1, `it is said once: ${lines.join('')}`);
        if (!hasFallen) return t.ok(place > 1, `${place} places`);
      }
    });
  }
}

t.test("QUE-09: pg-boss's own sessions that end at any answer", async (t) => {
  for (let place = 0; ; place += 1) {
    const { log } = hearing();
    const queue = createQueue(axe.url, log);
    axe.fallAt(place);
    t.strictSame(surprises(await Promise.allSettled([queue.start()])), []);
    await queue.stop();
    const { hasFallen } = axe;
    axe.fallAt(never);
    if (!hasFallen) return t.ok(place > 1, `${place} places`);
  }
});

t.test(
  'a transaction in which the server falls silent fails within 15 s, and its connection is not used again',
  async (t) => {
    const gate = await startGate(await createDatabase());
    t.teardown(() => gate.close());
    const db = connect(gate.url, silentLog, 1);
    t.teardown(() => db.close());
    let silentSince = 0;
    const doomed = db.transaction(async (tx) => {
      await tx.query({ text: 'SELECT 1' });
      gate.set('mute');
      silentSince = performance.now();
      await tx.query({ text: 'SELECT 1' });
    });
    await t.rejects(doomed, /Query read timeout/);
    const tookMs = performance.now() - silentSince;
    t.ok(tookMs < 15_000, `${tookMs} ms: it is waited for once, and not for a ROLLBACK as well`);
    gate.set('open');
    t.strictSame(await db.query({ text: 'SELECT 1 AS one' }), [{ one: 1 }]);
  },
);
