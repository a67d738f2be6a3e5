import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t from 'tap';
import { postReport } from '../../src/smtp/reports/report-post.ts';
import { startReportHost } from '../support/report-host.ts';
import { startZone } from '../support/zone.ts';

const packed = Buffer.from('report');

t.test('SSRF-03, SSRF-06: an address on the inside, or a port of another service, is not called', async (t) => {
  const host = await startReportHost(t);
  const { port } = new URL(host.url);
  const zone = await startZone({ 'reports.test': { A: ['127.0.0.1'] }, 'mixed.test': { A: ['8.8.8.8', '127.0.0.1'] } });
  t.teardown(() => zone.close());
  const places: [allowPrivate: boolean, authority: string, reason: RegExp][] = [
    [false, `reports.test:${port}`, /public internet/],
    [false, `mixed.test:${port}`, /public internet/],
    [false, `127.0.0.1:${port}`, /public internet/],
    [false, `localhost:${port}`, /public internet/],
    [true, `a:b@reports.test:${port}`, /user name/],
    [true, 'reports.test:25', /must not use port 25/],
    [true, `nowhere.test:${port}`, /has no address/],
  ];
  for (const [allowPrivate, authority, reason] of places) {
    const options = { resolver: zone.resolver, allowPrivate };
    const refusal = await postReport(options, new URL(`https://${authority}/`), packed, new AbortController().signal);
    t.match(refusal, reason, authority);
  }
  t.equal(host.connections, 0);
});

t.test('a receiver that does not answer or speak TLS is given up in time', async (t) => {
  const sockets: Socket[] = [];
  let word = '';
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}));
    socket.end(word);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const zone = await startZone();
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await zone.close();
  });
  const options = { resolver: zone.resolver, allowPrivate: true, timeoutMs: 20_000 };
  const url = new URL(`https://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const post = (signal = new AbortController().signal, timeoutMs = options.timeoutMs) =>
    postReport({ ...options, timeoutMs }, url, packed, signal);
  t.match(await post(), /closed|reset/);
  word = 'HTTP/1.1 200 OK\r\n\r\n';
  t.match(await post(), /TLS/);
  server.removeAllListeners('connection');
  server.on('connection', (socket) => sockets.push(socket.on('error', () => {})));
  t.equal(await post(undefined, 200), 'there was no answer within 0.2 seconds');
  t.equal(await post(AbortSignal.abort()), 'this server ended the call');
});
