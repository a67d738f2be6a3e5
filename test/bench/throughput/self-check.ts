import { startDrain } from './drain.ts';
import { nextRound } from './measure.ts';
import type { Options } from './options.ts';
import { messagesOf, nameOf, roundOf, scenariosOf } from './plan.ts';
import { handIn, runRound, type Tools } from './round.ts';
import { sinkHosts } from './sink.ts';
import type { System } from './system.ts';
import { grid } from './table.ts';

const nobody = { roots: [], except: [] };
const from = 'orders@bench.test';

/**
 * The capacity of the tools alone: the generator's SMTP straight into the sink, and its requests into a server that
 * only answers. A measurement that comes near to this measures the tools.
 */
export async function selfCheck(tools: Tools, options: Options, tell: (line: string) => void): Promise<string> {
  const rows = [['', 'per second', 'CPU-s per 1,000']];
  const drain = await startDrain();
  try {
    for (const scenario of scenariosOf(options)) {
      const count = messagesOf(options, scenario);
      const round = roundOf(options, scenario, { round: nextRound(), from, count });
      tell(`${nameOf(scenario)}, ${count} messages`);
      if (scenario.how === 'smtp') {
        const { deliveredPerSecond, cpu } = await runRound(sinkAlone(tools), tools, round);
        rows.push([
          `generator into sink: ${nameOf(scenario)}`,
          deliveredPerSecond.toFixed(0),
          (cpu.sink + cpu.generator).toFixed(3),
        ]);
        continue;
      }
      // What the sink offers makes no difference here.
      if (scenario.tls !== options.tls[0]) continue;
      const target = { host: '127.0.0.1', port: drain.port, key: 'none', startTls: false };
      const { perSecond, cpu } = await handIn(tools, { ...round, target });
      rows.push([`requests: ${scenario.how}, ${scenario.size} KB`, perSecond.toFixed(0), cpu.toFixed(3)]);
    }
  } finally {
    drain.end();
  }
  return grid(rows);
}

/** As if the sink were the system to measure. */
export function sinkAlone({ sinkPort }: Pick<Tools, 'sinkPort'>): System {
  return {
    name: 'the sink alone',
    from,
    target: ({ tls }) => ({ host: tls ? sinkHosts.tls : sinkHosts.plain, port: sinkPort, key: null, startTls: tls }),
    server: nobody,
    database: null,
    settle: async () => {},
    audit: async () => {},
    stop: async () => {},
  };
}
