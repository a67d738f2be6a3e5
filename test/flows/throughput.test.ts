import { tmpdir } from 'node:os';
import t from 'tap';
import { dkimRecord } from '../../src/core/domains/domains.ts';
import { readOptions } from '../bench/throughput/options.ts';
import { noPostfix, startBenchedPostfix } from '../bench/throughput/postfix.ts';
import { siteName } from '../bench/throughput/recipe.ts';
import { examine, type RoundOptions, runRound, startTools, stopTools } from '../bench/throughput/round.ts';
import { sinkAlone } from '../bench/throughput/self-check.ts';
import { auditOf } from '../bench/throughput/sendwright.ts';
import type { System } from '../bench/throughput/system.ts';
import { verifySignatures } from '../bench/throughput/verification.ts';
import { startDirectNode } from '../support/direct.ts';
import { eventually } from '../support/node.ts';
import { freePort } from '../support/ports.ts';

const tools = await startTools();
t.teardown(() => stopTools(tools));

const roundOf = (system: System, round: number, options: Partial<RoundOptions> = {}): RoundOptions => ({
  recipe: { round, count: 30, bytes: 2_048, from: system.from, tls: false, domains: 3, sites: 1, sameBody: false },
  how: 'smtp',
  clients: 4,
  perSession: 5,
  oneByOne: false,
  ...options,
});

t.test('the benchmark submits mail in every way, and recognizes each message at the sink', async (t) => {
  const submission = await freePort();
  const node = await startDirectNode(t, {
    mxPort: tools.sinkPort,
    zone: Object.fromEntries(
      [0, 1, 2].map((domain) => [`d${domain}.${siteName(false, 0)}`, { MX: [[10, 'mx.sink.test']] }]),
    ),
    env: { SUBMISSION_PORT: String(submission), SMTP_HOST: '127.0.0.1' },
  });
  node.zone.set('mx.sink.test', { A: ['127.0.0.1'] });
  const { name, value } = dkimRecord(await node.db.prisma.domain.findUniqueOrThrow({ where: { id: node.domainId } }));
  const system: System = {
    name: 'a node',
    from: node.from,
    server: { roots: [process.pid], except: [] },
    database: null,
    target: (_recipe, how) => ({
      host: '127.0.0.1',
      port: how === 'smtp' ? submission : Number(new URL(node.baseUrl).port),
      key: node.key,
      startTls: how === 'smtp',
    }),
    settle: async () => {
      await eventually(
        async () => (await node.db.query({ text: 'SELECT FROM recipients WHERE job_id IS NOT NULL' })).length === 0,
      );
    },
    async audit(recipe, kept) {
      await verifySignatures(recipe, kept, (asked) => (asked === name ? value : null));
      const [found] = await node.db.query<{ delivered: bigint; attempts: bigint }>(auditOf(recipe));
      t.equal(Number(found?.delivered), recipe.count);
      t.equal(Number(found?.attempts), recipe.count);
    },
    stop: async () => {},
  };
  for (const [round, how] of (['batches', 'singles', 'smtp'] as const).entries()) {
    const { messages, acceptMs, deliverMs, cpu } = await runRound(system, tools, roundOf(system, round, { how }));
    t.equal(messages, 30, how);
    t.ok(acceptMs.p50 > 0 && acceptMs.p50 <= acceptMs.p99);
    t.ok(deliverMs.p50 <= deliverMs.p99);
    t.ok(cpu.server > 0);
  }
  const slowly = roundOf(system, 9, { how: 'singles', oneByOne: true, clients: 1 });
  t.equal((await runRound(system, tools, { ...slowly, recipe: { ...slowly.recipe, count: 5 } })).messages, 5);
});

t.test(
  'the benchmark fails if a message is missing, duplicated, unknown, unsigned or in the wrong place',
  async (t) => {
    const alone = sinkAlone(tools);
    const { recipe } = roundOf(alone, 20);
    const good = {
      arrivedAt: new Float64Array(30).fill(1),
      again: 0,
      strange: 0,
      kept: [],
      connections: 1,
      overTls: 0,
    };
    await t.resolves(examine(alone, recipe, good));
    await t.rejects(
      examine(alone, recipe, { ...good, arrivedAt: new Float64Array(30).fill(1, 1) }),
      /^1 of 30 .* not arrive/,
    );
    await t.rejects(examine(alone, recipe, { ...good, again: 1 }), /more than once/);
    await t.rejects(examine(alone, recipe, { ...good, strange: 1 }), /do not belong to this round/);
    await t.rejects(
      examine(alone, { ...recipe, tls: true }, { ...good, overTls: 29 }),
      /29 of 30 messages came over TLS/,
    );
    const signed: System = { ...alone, audit: (of, kept) => verifySignatures(of, kept, () => null) };
    await t.rejects(runRound(signed, tools, roundOf(signed, 21)), /has no valid signature/);
    const over = roundOf(alone, 22);
    const tls = { ...over, recipe: { ...over.recipe, tls: true } };
    t.match(await runRound(alone, tools, tls), { overTls: 30 });
    const nowhere: System = { ...alone, target: () => ({ host: '127.0.0.1', port: 1, key: null, startTls: false }) };
    await t.rejects(runRound(nowhere, tools, roundOf(nowhere, 23)), /submitting failed: .*ECONNREFUSED/);
  },
);

t.test('the peer signs and delivers', { skip: noPostfix() ?? false }, async (t) => {
  const peer = await startBenchedPostfix({ folder: tmpdir(), sinkPort: tools.sinkPort, sites: 1, sessions: 4 });
  t.teardown(() => peer.stop());
  t.ok((await runRound(peer, tools, roundOf(peer, 30))).cpu.server > 0);
});

t.test('an invalid option is named', async (t) => {
  t.match(readOptions(['--only', 'smtp', '--sink', 'starttls', '--no-peer']), {
    ways: ['smtp'],
    tls: [true],
    peer: false,
  });
  t.throws(() => readOptions(['--only', 'pigeons']), /^--only takes batches, singles, smtp, not pigeons/);
  t.throws(() => readOptions(['--rounds', '0']), /^--rounds must be a whole number of at least 1, not 0/);
  t.throws(() => readOptions(['--env', 'nothing']), /^--env must be NAME=VALUE/);
});
