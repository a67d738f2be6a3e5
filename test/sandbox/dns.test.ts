import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import dnsPacket, { type Packet } from 'dns-packet';
import t, { type Test } from 'tap';
import { type Answer, startDnsServer } from '../../src/sandbox/dns.ts';
import { createResolver } from '../../src/smtp/dns/resolver.ts';

const record = (type: string, data: unknown) => ({ type, data, ttl: 5 });
const noError = (...records: ReturnType<typeof record>[]): Answer => ({ rcode: 'NOERROR', records });

async function start(t: Test, answer: (name: string, type: string) => Answer | Promise<Answer>) {
  const server = await startDnsServer({ answer });
  t.teardown(() => server.close());
  // A machine that stalls for some seconds must not look like a server that does not answer.
  return { ...server, resolver: createResolver([server.address], { timeoutMs: 30_000, tries: 1 }) };
}

/** One packet over UDP, and the answer that arrives within this time. */
async function overUdp(address: string, packet: Buffer, withinMs = 30_000): Promise<Buffer | null> {
  const socket = createSocket('udp4');
  socket.send(packet, Number(address.split(':')[1]), '127.0.0.1');
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), withinMs);
  const [response] = await once(socket, 'message', { signal: late.signal }).catch(() => [null]);
  clearTimeout(timer);
  socket.close();
  return response;
}

const query = (name: string, type: 'TXT' | 'A', options: Partial<Packet> = {}) =>
  dnsPacket.encode({ type: 'query', id: 7, questions: [{ type, name }], ...options });

t.test('each type of record comes back as given', async (t) => {
  const { resolver } = await start(t, (_name, type) => {
    if (type === 'MX') return noError(record('MX', { preference: 10, exchange: 'mx.example.test' }));
    if (type === 'A') return noError(record('A', '192.0.2.1'), record('A', '192.0.2.2'));
    if (type === 'AAAA') return noError(record('AAAA', '2001:db8::1'));
    if (type === 'TXT') return noError(record('TXT', 'v=spf1 -all'), record('TXT', 'a second one'));
    return noError(record(type, 'name.example.test'));
  });
  t.same(await resolver.resolveMx('a.test'), [{ exchange: 'mx.example.test', priority: 10, type: 'MX' }]);
  t.same((await resolver.resolve4('a.test')).toSorted(), ['192.0.2.1', '192.0.2.2']);
  t.same(await resolver.resolve6('a.test'), ['2001:db8::1']);
  t.same((await resolver.resolveTxt('a.test')).flat().toSorted(), ['a second one', 'v=spf1 -all']);
  t.same(await resolver.resolve('a.test', 'CNAME'), ['name.example.test']);
  t.same(await resolver.resolve('1.2.0.192.in-addr.arpa', 'PTR'), ['name.example.test']);
});

t.test('names are matched in lower case and without the trailing dot', async (t) => {
  const names: string[] = [];
  const { resolver } = await start(t, (name) => {
    names.push(name);
    return noError(record('A', '192.0.2.1'));
  });
  await resolver.resolve4('MiXed.Example.TEST.');
  t.same(names, ['mixed.example.test']);
});

t.test('the different ways to have no records are told apart', async (t) => {
  const answers: Record<string, Answer> = {
    nodata: noError(),
    nxdomain: { rcode: 'NXDOMAIN', records: [] },
    servfail: { rcode: 'SERVFAIL', records: [] },
    refused: { rcode: 'REFUSED', records: [] },
    drop: 'drop',
  };
  const { address, resolver } = await start(t, (name) => {
    const answer = answers[name.replace('.test', '')];
    if (answer === undefined) throw new Error('unheard of');
    return answer;
  });
  const codes = {
    nodata: 'ENODATA',
    nxdomain: 'ENOTFOUND',
    servfail: 'ESERVFAIL',
    refused: 'EREFUSED',
    throws: 'ESERVFAIL',
  };
  for (const [name, code] of Object.entries(codes)) {
    await t.rejects(resolver.resolve4(`${name}.test`), { code }, name);
  }
  const impatient = createResolver([address], { timeoutMs: 500, tries: 1 });
  await t.rejects(impatient.resolve4('drop.test'), { code: 'ETIMEOUT' });
});

t.test('a text of any length is split into strings of 255 bytes', async (t) => {
  const texts = [255, 256, 600, 5_000].map((length) => 'k'.repeat(length));
  const { resolver } = await start(t, (name) => noError(record('TXT', texts[Number(name.split('.')[0])])));
  for (const [at, text] of texts.entries()) {
    const [strings = []] = await resolver.resolveTxt(`${at}.test`);
    t.equal(strings.join(''), text);
    t.ok(strings.every((string) => string.length <= 255));
  }
});

t.test('an answer that is too long for UDP is truncated there, and complete over TCP', async (t) => {
  const { address, resolver } = await start(t, () => noError(record('TXT', 'x'.repeat(1_000))));
  const cut = dnsPacket.decode((await overUdp(address, query('a.test', 'TXT'))) ?? Buffer.alloc(0));
  t.equal(cut.flag_tc, true);
  t.same(cut.answers, []);

  const additionals: Packet['additionals'] = [
    {
      type: 'OPT',
      name: '.',
      udpPayloadSize: 1_232,
      extendedRcode: 0,
      ednsVersion: 0,
      flags: 0,
      flag_do: false,
      options: [],
    },
  ];
  const whole = dnsPacket.decode((await overUdp(address, query('a.test', 'TXT', { additionals }))) ?? Buffer.alloc(0));
  t.equal(whole.flag_tc, false, 'EDNS allows more');
  t.equal(whole.answers?.length, 1);

  const many = await start(t, () =>
    noError(...Array.from({ length: 60 }, (_, at) => record('TXT', `${at}`.repeat(100)))),
  );
  t.equal((await many.resolver.resolveTxt('a.test')).length, 60, 'a resolver switches to TCP by itself');
  t.equal((await resolver.resolveTxt('a.test')).flat().join('').length, 1_000);
});

t.test('TCP takes several questions per connection, in any segmentation', async (t) => {
  const { address } = await start(t, (name) => noError(record('TXT', name)));
  const socket = connect(Number(address.split(':')[1]), '127.0.0.1');
  t.teardown(() => socket.destroy());
  const framed = ['a.test', 'b.test'].map((name) =>
    dnsPacket.streamEncode({ type: 'query', id: 1, questions: [{ type: 'TXT', name }] }),
  );
  for (const byte of Buffer.concat(framed)) socket.write(Buffer.from([byte]));
  let received = Buffer.alloc(0);
  const heard: string[] = [];
  while (heard.length < 2) {
    received = Buffer.concat([received, (await once(socket, 'data'))[0]]);
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      const size = 2 + received.readUInt16BE(0);
      const [answer] = dnsPacket.streamDecode(received.subarray(0, size)).answers ?? [];
      heard.push(answer?.name ?? '');
      received = received.subarray(size);
    }
  }
  t.same(heard.toSorted(), ['a.test', 'b.test']);
});

t.test('anything that is no question is ignored, and the server survives', async (t) => {
  const { address, resolver } = await start(t, () => noError(record('A', '192.0.2.1')));
  const response = dnsPacket.encode({ type: 'response', id: 1, questions: [{ type: 'A', name: 'a.test' }] });
  const two = query('a.test', 'A', {
    questions: [
      { type: 'A', name: 'a.test' },
      { type: 'A', name: 'b.test' },
    ],
  });
  const packets = [
    Buffer.alloc(0),
    Buffer.from([1, 2, 3]),
    Buffer.alloc(600, 0xff),
    response,
    two,
    query('a.test', 'A', { questions: [] }),
  ];
  for (const packet of packets) t.equal(await overUdp(address, packet, 200), null);
  const socket = connect(Number(address.split(':')[1]), '127.0.0.1').on('error', () => {});
  socket.end(Buffer.from([0, 3, 1, 2, 3, 255]));
  await once(socket, 'close');
  t.same(await resolver.resolve4('a.test'), ['192.0.2.1']);
});

t.test('an alias and its target are in one answer', async (t) => {
  const { resolver } = await start(t, () =>
    noError(record('CNAME', 'b.test'), { ...record('A', '192.0.2.9'), name: 'b.test' } as ReturnType<typeof record>),
  );
  t.same(await resolver.resolve4('a.test'), ['192.0.2.9']);
});

t.test('a record that cannot be encoded is a SERVFAIL', async (t) => {
  const { resolver } = await start(t, () => noError(record('MX', null)));
  await t.rejects(resolver.resolveMx('a.test'), { code: 'ESERVFAIL' });
});
