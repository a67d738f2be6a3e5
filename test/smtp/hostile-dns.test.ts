import { execFile } from 'node:child_process';
import dns, { Resolver as NodeResolver } from 'node:dns/promises';
import { promisify } from 'node:util';
import dnsPacket, { type Answer } from 'dns-packet';
import t from 'tap';
import { type LookUpOptions, resolveDestination, resolveHost } from '../../src/smtp/dns/mx.ts';
import { ask, createResolver } from '../../src/smtp/dns/resolver.ts';
import { ValidatingResolver } from '../../src/smtp/dns/validating-resolver.ts';
import { least } from '../support/linear.ts';
import { ownEnv } from '../support/process.ts';
import { packet, type RawAnswer, type RawQuestion, startRawDns } from '../support/raw-dns.ts';
import { startZone } from '../support/zone.ts';

type Record = Omit<Answer, 'name'> & { name?: string };

const mx = (exchange: string, preference = 10) => ({ type: 'MX', data: { preference, exchange } }) as Record;
const a = (address: string) => ({ type: 'A', data: address }) as Record;
const cname = (name: string, target: string) => ({ type: 'CNAME', name, data: target }) as Record;
const isMx = ({ type }: RawQuestion) => type === 'MX';
/** Records for an MX question, and an address for everything else. */
const mxOf =
  (...records: Record[]) =>
  (question: RawQuestion): RawAnswer =>
    overTcp(question, isMx(question) ? records : question.type === 'A' ? [a('127.0.0.1')] : []);
/** At full size: over UDP a truncated answer is asked for again. */
function overTcp(question: RawQuestion, records: Record[]): RawAnswer {
  const whole = packet(question, records);
  if (question.over === 'tcp' || whole.length <= 512) return [whole];
  return [packet(question, [], { flags: dnsPacket.TRUNCATED_RESPONSE })];
}
function withNumber(bytes: Buffer, at: number, number: number): Buffer {
  bytes.writeUInt16BE(number, at);
  return bytes;
}

/** The bytes of a good answer, manipulated. */
const spoilt =
  (spoil: (bytes: Buffer, question: RawQuestion) => Buffer) =>
  (question: RawQuestion): RawAnswer => {
    return [spoil(packet(question, isMx(question) ? [mx('mx.good.test')] : []), question)];
  };

type Expected = { kind: string; enhanced?: string; class?: string; hosts?: { name: string }[] };
const nobody = { kind: 'permanent', enhanced: '5.1.2', class: 'bad_domain' };
const unusable = { kind: 'permanent', enhanced: '5.4.4', class: 'network' };
const later = { kind: 'temporary', enhanced: '4.4.3', class: 'network' };
const to = (...names: string[]) => ({ kind: 'hosts', hosts: names.map((name) => ({ name })) });

const table: { [name: string]: [how: (question: RawQuestion) => RawAnswer, expected: Expected] } = {
  good: [mxOf(mx('mx.good.test')), to('mx.good.test')],
  nxdomain: [(question) => [packet(question, [], { rcode: 'NXDOMAIN' })], nobody],
  nodata: [(question) => [packet(question, [])], nobody],
  implicit: [mxOf(), to('implicit.test')],
  'no-edns': [
    (question) => (question.edns ? [packet(question, [], { rcode: 'FORMERR' })] : mxOf()(question)),
    to('no-edns.test'),
  ],
  'null-mx': [mxOf(mx('.', 0)), { kind: 'permanent', enhanced: '5.1.10', class: 'bad_domain' }],
  'empty-mx': [mxOf(mx('.', 10), mx('.', 20)), { kind: 'permanent', enhanced: '5.1.10', class: 'bad_domain' }],
  servfail: [(question) => [packet(question, [], { rcode: 'SERVFAIL' })], later],
  refused: [(question) => [packet(question, [], { rcode: 'REFUSED' })], later],
  notauth: [(question) => [packet(question, [], { rcode: 'NOTAUTH' })], later],
  'notauth-for-addresses': [(question) => [packet(question, [], isMx(question) ? {} : { rcode: 'NOTAUTH' })], later],
  // A name that a DNAME record would make too long.
  yxdomain: [(question) => [packet(question, [], { rcode: 'YXDOMAIN' })], nobody],
  'no-answer': [() => [], later],
  'half-nothing': [(question) => (isMx(question) ? [packet(question, [])] : []), later],
  'servfail-for-addresses': [(question) => [packet(question, [], isMx(question) ? {} : { rcode: 'SERVFAIL' })], later],
  'nxdomain-in-words-of-another': [
    (question) => [packet({ ...question, name: 'other.test' }, [], { rcode: 'NXDOMAIN' })],
    later,
  ],
  'wrong-id': [spoilt((bytes, { id }) => withNumber(bytes, 0, id ^ 1)), later],
  'wrong-id-first': [
    (question) => [
      packet({ ...question, id: question.id ^ 1 }, [mx('forged.test')]),
      packet({ ...question, name: 'other.test' }, [mx('forged.test')]),
      packet(question, [mx('mx.good.test')]),
    ],
    to('mx.good.test'),
  ],
  cut: [spoilt((bytes) => bytes.subarray(0, -3)), later],
  'cut-to-its-header': [spoilt((bytes) => bytes.subarray(0, 12)), later],
  nothing: [() => [Buffer.alloc(0)], later],
  noise: [() => [Buffer.alloc(512, 0xa5)], later],
  'more-than-there-is': [spoilt((bytes) => withNumber(bytes, 6, 60_000)), later],
  // A name that points to itself.
  'endless-name': [
    spoilt((bytes, question) =>
      isMx(question) ? withNumber(bytes, bytes.length - 2, 0xc000 | (bytes.length - 2)) : bytes,
    ),
    later,
  ],
  truncated: [
    (question) =>
      question.over === 'udp'
        ? [packet(question, [], { flags: dnsPacket.TRUNCATED_RESPONSE })]
        : [packet(question, [mx('mx.good.test')])],
    to('mx.good.test'),
  ],
  'truncated-and-no-more': [
    (question) =>
      question.over === 'udp' ? [packet(question, [], { flags: dnsPacket.TRUNCATED_RESPONSE })] : 'hang up',
    later,
  ],
  'truncated-and-silent': [
    (question) => (question.over === 'udp' ? [packet(question, [], { flags: dnsPacket.TRUNCATED_RESPONSE })] : []),
    later,
  ],
  'cname-loop': [
    (question) => [packet(question, [cname('cname-loop.test', 'b.test'), cname('b.test', 'cname-loop.test')])],
    nobody,
  ],
  'cname-to-itself': [(question) => [packet(question, [cname(question.name, question.name)])], nobody],
  'mx-to-cname': [mxOf(mx('alias.good.test')), to('alias.good.test')],
  'mx-of-another': [
    (question) => [packet(question, [{ ...mx('forged.test'), name: 'other.test' } as Record])],
    to('forged.test'),
  ],
  'nul-in-a-label': [mxOf(mx('a\0b.test')), unusable],
  'newline-in-a-label': [mxOf(mx('a\r\nRCPT TO:<x>.test')), unusable],
  'odd-labels': [
    mxOf(
      ...['a b.test', '<a>.test', '[127.0.0.1]', 'a@b.test', '\x1b[31m.test', 'é.test', '*.test', '127.0.0.1'].map(
        (name) => mx(name),
      ),
    ),
    unusable,
  ],
  'one-good-among-odd': [mxOf(mx('a\0b.test', 1), mx('mx.good.test', 2)), to('mx.good.test')],
};

/** Shortened, for inputs without an end. */
const patience = { timeoutMs: 100, tries: 2, mostMs: 400 };
/** Forged or not: an answer that a good server would not give yields no host. */
const isNone = (records: unknown) => !JSON.stringify(records).includes('forged');

t.test('SSRF-12: whatever a name server says, the mail is sent, waits or fails as it should', async (t) => {
  const { address } = await startRawDns(t, (question) => {
    const [how] = table[question.name.split('.')[0] ?? ''] ?? [];
    return how?.(question) ?? [];
  });
  // Each has its own resolver: if they shared one, a server that hangs up would end the queries for all names.
  const options = (expected?: Expected): LookUpOptions => ({
    resolver: createResolver([address], expected === later ? patience : {}),
    allowPrivate: true,
  });
  const validating = new ValidatingResolver(address, { timeoutMs: 100, tries: 1 });
  const all = Object.entries(table).map(async ([name, [, expected]]) => {
    t.match(await resolveDestination(`${name}.test`, options(expected)), expected, name);
    const answer = await validating.query(`${name}.test`, 'MX');
    t.ok(answer.kind === 'temporary' || answer.kind === 'records', `${name}, from a validating resolver`);
    if (expected.kind === 'temporary' && answer.kind === 'records') t.ok(isNone(answer.records), name);
  });
  await Promise.all(all);
  const expected = { kind: 'addresses', addresses: ['127.0.0.1'], ours: false };
  t.strictSame(await resolveHost('mx-to-cname.test', options()), expected);
});

t.test('SSRF-12: an answer that is truncated over TCP too says nothing about DANE', async (t) => {
  const { address } = await startRawDns(t, (question) => [
    packet(question, [], { flags: dnsPacket.TRUNCATED_RESPONSE | dnsPacket.AUTHENTIC_DATA }),
  ]);
  t.match(await new ValidatingResolver(address, { tries: 1 }).query('_25._tcp.mx.test', 'TLSA'), { kind: 'temporary' });
});

t.test('SSRF-12: what is no answer to the very question is passed over', async (t) => {
  const flags = dnsPacket.AUTHENTIC_DATA;
  const forgeries: { [how: string]: (question: RawQuestion) => Buffer } = {
    'another id': (question) => packet({ ...question, id: question.id ^ 1 }, [a('192.0.2.66')], { flags }),
    'another name': (question) => packet({ ...question, name: 'b.test' }, [a('192.0.2.66')], { flags }),
    'another type': (question) => packet({ ...question, type: 'AAAA' }, [a('192.0.2.66')], { flags }),
    'no response': (question) => {
      const bytes = packet(question, [a('192.0.2.66')], { flags });
      bytes.writeUInt8(bytes.readUInt8(2) & 0x7f, 2);
      return bytes;
    },
  };
  for (const [how, forge] of Object.entries(forgeries)) {
    const { address } = await startRawDns(t, (question) => [
      forge(question),
      packet(question, [a('192.0.2.1')], { flags }),
    ]);
    const answer = await new ValidatingResolver(address, { timeoutMs: 20_000, tries: 1 }).query('a.test', 'A');
    t.match(answer, { kind: 'records', records: [{ secure: true, records: [{ data: '192.0.2.1' }] }] }, how);
  }
});

t.test('a TLSA record that is too short is a malformed answer, and no server that is silent', async (t) => {
  const { address } = await startRawDns(t, (question) => {
    const record = { type: 'TLSA', data: { usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(0) } };
    const bytes = packet(question, [record as Record], { flags: dnsPacket.AUTHENTIC_DATA });
    // The record ends after its usage.
    return [withNumber(bytes, bytes.length - 5, 1).subarray(0, -2)];
  });
  const resolver = new ValidatingResolver(address, { timeoutMs: 1_000, tries: 2 });
  const answer = await resolver.query('_25._tcp.mx.test', 'TLSA');
  t.match(answer, { kind: 'temporary', reason: 'the name server sent a malformed answer' });
});

t.test('a validating resolver that there is no way to is a look-up that failed', async (t) => {
  // To a broadcast address no socket may be connected: an error at once, as without a route.
  const answer = await new ValidatingResolver('127.255.255.255', { timeoutMs: 100 }).query('a.test', 'MX');
  t.match(answer, { kind: 'temporary' });
});

t.test('SSRF-12: a name server that never answers is waited for only so long', async (t) => {
  const { address } = await startRawDns(t, () => []);
  const resolver = createResolver([address, address, address], { timeoutMs: 100, tries: 10, mostMs: 300 });
  const askAll = () =>
    Promise.all([
      ask(() => resolver.resolveMx('a.test')),
      ask(() => resolver.resolve4('a.test')),
      ask(() => resolver.resolve6('a.test')),
      ask(() => resolver.resolveTxt('a.test')),
      ask(async () => (await resolver.resolve('a.test', 'TXT')) as unknown[]),
    ]);
  let least = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 5 && least >= 1_000; round += 1) {
    const started = performance.now();
    for (const answer of await askAll()) t.match(answer, { kind: 'temporary', reason: /did not answer in time/ });
    least = Math.min(least, performance.now() - started);
  }
  t.ok(least < 1_000, `${least} ms`);
});

t.test(
  'SSRF-12: a validating resolver that truncates its answers and says nothing over TCP is waited for only so long',
  async (t) => {
    let questions = 0;
    const { address } = await startRawDns(t, (question) => {
      questions += 1;
      return question.over === 'tcp' ? [] : [packet(question, [], { flags: dnsPacket.TRUNCATED_RESPONSE })];
    });
    const resolver = new ValidatingResolver(address, { timeoutMs: 100, tries: 20, mostMs: 150 });
    t.match(await resolver.query('a.test', 'MX'), { kind: 'temporary', reason: /did not answer in time/ });
    t.ok(questions <= 10, `${questions} questions`);
  },
);

t.test('a name that takes longer than all before is waited for as long as any other', async (t) => {
  const zone = await startZone({ 'quick.test': { A: ['192.0.2.1'] }, 'slow.test': { A: ['192.0.2.2'] } });
  t.teardown(() => zone.close());
  const { resolve4 } = createResolver([zone.address], { tries: 1 });
  for (let left = 20; left > 0; left--) await resolve4('quick.test');
  // Quick answers teach c-ares to wait a second.
  zone.delay(1_300);
  t.strictSame(await ask(() => resolve4('slow.test')), { kind: 'records', records: ['192.0.2.2'] });
});

t.test('a name server that gives no answer of its own is not the last to be asked', async (t) => {
  const { address: good } = await startRawDns(t, mxOf(mx('mx.good.test')));
  const { address: empty } = await startRawDns(t, (question) => [packet(question, [], { rcode: 'NXDOMAIN' })]);
  for (const rcode of ['SERVFAIL', 'REFUSED', 'NOTIMP', 'FORMERR', 'NOTAUTH'] as const) {
    const { address: bad } = await startRawDns(t, (question) => [packet(question, [], { rcode })]);
    const asked = (...servers: string[]) => ask(() => createResolver(servers).resolveMx('a.test'));
    t.match(await asked(bad, good), { kind: 'records', records: [{ exchange: 'mx.good.test' }] }, rcode);
    t.match(await asked(bad, bad, good), { kind: 'records' }, `${rcode} twice`);
    t.match(await asked(bad, empty, good), { kind: 'nxdomain' }, `${rcode}, and then an answer`);
    t.match(await asked(bad, bad), { kind: 'temporary' }, `${rcode} only`);
  }
});

t.test('a name server that only refers to others is not taken for one that knows of no mail server', async (t) => {
  const ns = [{ type: 'NS', name: 'test', data: 'ns.nic.test', ttl: 60, class: 'IN' }] as Answer[];
  const refer = (question: RawQuestion, answers: Record[] = [], flags = 0) => {
    const bytes = packet(question, answers, { authorities: ns, flags });
    // It offers no recursion.
    bytes.writeUInt16BE(bytes.readUInt16BE(2) & ~dnsPacket.RECURSION_AVAILABLE, 2);
    return [bytes];
  };
  const { address: bad } = await startRawDns(t, (question) => refer(question));
  const own = await startRawDns(t, (question) =>
    question.name === 'own.test' && isMx(question)
      ? refer(question, [mx('mx.other.test')], dnsPacket.AUTHORITATIVE_ANSWER)
      : refer(question),
  );
  const alias = await startRawDns(t, (question) =>
    refer(question, [cname(question.name, 'mx.other.test')], dnsPacket.AUTHORITATIVE_ANSWER),
  );
  const { address: good } = await startRawDns(t, mxOf(mx('mx.good.test')));
  const { address: silent } = await startRawDns(t, () => []);
  const options = (...servers: string[]): LookUpOptions => ({ resolver: createResolver(servers), allowPrivate: true });
  const reason = /only refers to others: DNS_SERVERS must name resolvers/;
  const ours = { kind: 'temporary', enhanced: '4.4.3', class: 'sender', reason };
  t.match(await resolveDestination('a.test', options(bad)), ours);
  t.match(await resolveDestination('a.test', options(alias.address)), ours, 'for the target of an alias');
  t.match(await resolveDestination('own.test', options(own.address)), to('mx.other.test'));
  t.match(await resolveHost('mx.other.test', options(own.address)), ours, 'for a host of another zone');
  t.match(await resolveDestination('a.test', options(bad, good)), to('mx.good.test'), 'the next one is asked');
  t.match(await resolveDestination('a.test', { resolver: createResolver([silent, bad], patience) }), {
    kind: 'temporary',
  });
  const { address: none } = await startRawDns(t, (question) => [packet(question, [], { authorities: ns })]);
  t.match(await resolveDestination('a.test', options(none)), nobody, 'a resolver may name servers, too');
  const { address: negative } = await startRawDns(t, (question) => [
    packet(question, [], { flags: dnsPacket.AUTHORITATIVE_ANSWER }),
  ]);
  t.match(await resolveDestination('a.test', options(negative)), nobody);
});

t.test('a query that Node takes back, as another one was refused, is made again', async (t) => {
  const { address } = await startRawDns(t, mxOf(mx('mx.a.test')));
  const { resolveMx } = NodeResolver.prototype;
  let asked = 0;
  t.intercept(NodeResolver.prototype, 'resolveMx', {
    async value(this: NodeResolver, name: string) {
      if (++asked === 1) throw Object.assign(new Error(), { code: dns.DESTRUCTION });
      return resolveMx.call(this, name);
    },
  });
  t.match(await createResolver([address]).resolveMx('a.test'), [{ exchange: 'mx.a.test' }]);
  t.equal(asked, 2);
});

t.test('a process without descriptors is not taken for a name server that refuses', async (t) => {
  const resolver = new URL('../../src/smtp/dns/resolver.ts', import.meta.url).href;
  const code = `
    import { openSync } from 'node:fs';
    import { ask, createResolver } from '${resolver}';
    const { resolve4 } = createResolver(['127.0.0.1:1']);
    const closed = await ask(() => resolve4('a.test'));
    try {
      for (;;) openSync('/dev/null');
    } catch {}
    const full = await ask(() => resolve4('a.test'));
    console.log(JSON.stringify([closed, full]));`;
  const limited = ['-c', 'ulimit -n 64 && exec "$0" --input-type=module -e "$1"', process.execPath, code];
  const { stdout } = await promisify(execFile)('sh', limited, { env: ownEnv() });
  t.match(JSON.parse(stdout), [
    { kind: 'temporary', untried: false },
    { kind: 'temporary', reason: 'this server has no free file descriptors (EMFILE)', untried: true },
  ]);
});

t.test('SSRF-12: as many records as fit into an answer of 64 kB cost almost nothing', async (t) => {
  const strings = Array.from({ length: 1_000 }, (_, n) => Buffer.alloc(60, 97 + (n % 26)));
  const { address } = await startRawDns(t, (question) => {
    if (question.type === 'MX')
      return overTcp(
        question,
        Array.from({ length: 2_400 }, (_, n) => mx('m', n)),
      );
    if (question.type === 'TXT') return overTcp(question, [{ type: 'TXT', data: strings } as Record]);
    return overTcp(
      question,
      Array.from({ length: 2_400 }, (_, n) => a(`127.0.${n >> 8}.${n & 255}`)),
    );
  });
  const resolver = createResolver([address]);
  const options: LookUpOptions = { resolver, allowPrivate: true };
  const ms = await least(
    async () => {
      t.match(await resolveDestination('many.test', options), to('m'));
      const hosts = await resolveHost('many.test', options);
      t.equal(hosts.kind === 'addresses' && hosts.addresses.length, 10);
      const [texts = []] = await resolver.resolveTxt('many.test');
      t.equal(texts.join('').length, 60_000);
      t.match(await ask(() => resolver.resolveTxt('many.test')), { kind: 'records' });
      const answer = await new ValidatingResolver(address).query('many.test', 'TXT');
      t.equal(answer.kind, 'records');
    },
    500,
    10,
  );
  t.ok(ms < 500, `${ms} ms of processor time`);
});
