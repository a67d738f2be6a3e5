import { HttpConnection, type HttpRequest, httpRequests } from './http-load.ts';
import type { Load, Loaded, LoadNews, LoadOrder } from './load.ts';
import { now } from './recipe.ts';
import { SmtpConnection, type Submission, submissions } from './smtp-load.ts';

/** A separate process: submits the messages. All of them are prepared before the first one is sent. */

interface Client<T> {
  send(piece: T): Promise<void>;
  close(): void;
}

const say = (news: LoadNews) => {
  if (process.connected) process.send?.(news);
};
let go: () => void = () => {};
let next: () => void = () => {};

async function work(load: Load): Promise<Loaded> {
  if (load.how === 'smtp') {
    return run<Submission>(load, submissions(load), async () => new SmtpConnection(load));
  }
  const { host, port } = load.target;
  return run<HttpRequest>(load, httpRequests(load), () => HttpConnection.open(port, host));
}

async function run<T extends { first: number; count: number }>(
  load: Load,
  pieces: T[],
  open: () => Promise<Client<T>>,
): Promise<Loaded> {
  const askedAt = new Float64Array(load.recipe.count);
  const acceptedAt = new Float64Array(load.recipe.count);
  const clients = await Promise.all(Array.from({ length: Math.min(load.clients, pieces.length) }, open));
  const started = new Promise<void>((resolve) => (go = resolve));
  say({ prepared: true });
  await started;
  let at = 0;
  let sent = 0;
  const progress = setInterval(() => say({ sent }), 1_000);
  try {
    await Promise.all(
      clients.map(async (client) => {
        for (let piece = pieces[at++]; piece; piece = pieces[at++]) {
          const { first, count } = piece;
          askedAt.fill(now(), first, first + count);
          await client.send(piece);
          acceptedAt.fill(now(), first, first + count);
          sent += count;
          if (!load.oneByOne) continue;
          const told = new Promise<void>((resolve) => (next = resolve));
          say({ sent });
          await told;
        }
      }),
    );
  } finally {
    clearInterval(progress);
    for (const client of clients) client.close();
  }
  return { askedAt, acceptedAt };
}

if (import.meta.main) {
  process.on('message', (order: LoadOrder) => {
    if ('go' in order) go();
    else if ('next' in order) next();
    else {
      work(order.prepare).then(
        (done) => say({ done }),
        (error: Error) => say({ failed: error.message }),
      );
    }
  });
  process.on('disconnect', () => process.exit(0));
  say({ waiting: true });
}
