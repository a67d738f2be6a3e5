import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Peer } from '../../support/mx.ts';
import { eventually } from '../../support/node.ts';
import { withNodeAlone } from '../alone.ts';
import type { Scenario } from '../run.ts';

const address = '127.0.0.3';
/** MX-01: how long the server takes for a message, in seconds; RFC 5321 section 4.5.3.2.6 allows it ten minutes. */
const delays = { quick: [60], long: [60, 599] };

/** MX-01: the lease is renewed and the claim kept while the answer to the final dot takes its time. */
export const lateDot: Scenario = {
  name: 'late-dot',
  what: 'a 250 to the final dot after 60 and after 599 seconds: delivered, once',
  quick: 1,
  long: true,
  run: (run) =>
    withNodeAlone(run, {}, async ({ node, zone, key, mxPort, figures, findings }) => {
      const copies = new Map<string, number>();
      const server = createServer((socket) => void slowly(new Peer(socket), copies)).listen(mxPort, address);
      const seconds = run.rounds > 1 ? delays.long : delays.quick;
      const ids = await Promise.all(
        seconds.map(async (delay) => {
          const site = `after${delay}.test`;
          zone.set(site, { A: [address] });
          const body = { from: 'a@sender.test', to: `b@${site}`, subject: 's', text: 'x' };
          return (await node.call('POST', '/api/v1/emails', { key, body })).body.email.id as string;
        }),
      );
      for (const [at, delay] of seconds.entries()) {
        const status = await eventually(
          async () => {
            const { email } = (await node.call('GET', `/api/v1/emails/${ids[at]}`, { key })).body;
            return email.status !== 'queued' && (email.status as string);
          },
          delay * 1_000 + 60_000,
        );
        const count = copies.get(`after${delay}.test`) ?? 0;
        figures[`${delay} s after the dot`] = `${status}, ${count} copies`;
        if (status !== 'sent' || count !== 1)
          findings.push({ rule: 'A2', what: `after ${delay} s: ${status}, ${count} copies` });
      }
      server.close();
    }),
};

/** Accepts one message after another; its recipient's domain says how long it takes for each. */
async function slowly(peer: Peer, copies: Map<string, number>): Promise<void> {
  try {
    await peer.greet();
    for (;;) {
      await peer.answer('250 ok');
      const site = /@([^>]+)>/.exec(await peer.answer('250 ok'))?.[1] ?? '';
      await peer.answer('354 go');
      await peer.until('\r\n.\r\n');
      copies.set(site, (copies.get(site) ?? 0) + 1);
      await sleep(Number(/\d+/.exec(site)?.[0] ?? 0) * 1_000);
      peer.send('250 at last\r\n');
    }
  } catch {
    peer.socket.destroy();
  }
}
