import cluster from 'node:cluster';
import type { Config } from '../config.ts';
import { Keyring } from '../crypto/seal.ts';
import { startErrorOf } from '../db/failure.ts';
import { readDashboard } from '../http/dashboard-files.ts';
import type { Logger } from '../log.ts';
import type { Measured, Metrics } from '../process/metrics.ts';
import { TakenPorts } from '../process/start-error.ts';
import type { StopDelay } from '../process/stop-delay.ts';
import type { Stops } from '../process/stops.ts';
import { type SendwrightNode, startNode } from './node.ts';
import type { News, Siblings } from './siblings.ts';

/** What a worker stands on. */
export interface Ground {
  kind: 'ground';
  databaseUrl: string;
  jwtSecret: string;
  encryptionKeys: string[];
  /** See `Foundation`. */
  taken: TakenPorts['ports'];
}

/** Messages from the first process of a node to its workers. */
export type ToWorker =
  | Ground
  | { kind: 'news'; news: News }
  /** Asks for what this worker counts. */
  | { kind: 'measure'; question: number };

/** Messages from a worker to the first process. */
export type FromWorker =
  /** It hears from now on what it is told, first its ground: Node drops what comes while code is still being loaded. */
  | { kind: 'listening' }
  /** From now on this worker claims work under this name. */
  | { kind: 'name'; nodeId: string }
  /** For the other workers. */
  | { kind: 'news'; news: News }
  | { kind: 'measured'; question: number; measured: Measured }
  | ({ kind: 'ready' } & Pick<SendwrightNode, 'baseUrl' | 'submission' | 'inbound'>)
  /** Why it could not start: one line for the operator, or a defect of ours. */
  | { kind: 'failed'; message: string; expected: boolean; taken: TakenPorts['ports'] };

interface WorkerOptions {
  log: Logger;
  /** The steps that stop it; it grows during the start. */
  stops: Stops;
  /** What its end begins with. */
  delay: StopDelay;
  /** Whether the steps have been taken. */
  isEnding: () => boolean;
}

/**
 * Runs one of the processes of a node, on the ground that the first one has laid, with the ports that it shares out. In all
 * else it is a node of its own: own connections, own lease, own journal.
 */
export async function runWorker(config: Config, { log, stops, delay, isEnding }: WorkerOptions): Promise<void> {
  endWithFirst(log);
  try {
    const { databaseUrl, jwtSecret, encryptionKeys, taken } = await ground();
    const [first = Buffer.alloc(0), ...others] = encryptionKeys.map((key) => Buffer.from(key, 'base64'));
    const foundation = {
      databaseUrl,
      alone: false,
      jwtSecret,
      keyring: new Keyring(first, ...others),
      log,
      siblings,
      taken,
      delay,
      dashboard: await readDashboard(),
    };
    const node = await startNode(config, foundation, stops);
    if (config.metrics.port !== 0) answerMeasures(node.metrics, log);
    const { baseUrl, submission, inbound } = node;
    say({ kind: 'ready', baseUrl, submission, inbound });
  } catch (error) {
    // An end during the start takes its ground away: whatever fails then is no error.
    if (isEnding()) return;
    const expected = startErrorOf(error);
    const { stack = '' } = error as Error;
    const taken = expected instanceof TakenPorts ? expected.ports : [];
    say({ kind: 'failed', message: expected?.message ?? stack, expected: expected !== null, taken }, () =>
      process.exit(1),
    );
  }
}

const siblings: Siblings = {
  tellName: (nodeId) => say({ kind: 'name', nodeId }),
  tell: (news) => say({ kind: 'news', news }),
  onNews(listener) {
    process.on('message', (message: ToWorker) => {
      if (message.kind === 'news') listener(message.news);
    });
  },
};

function answerMeasures(metrics: Metrics, log: Logger): void {
  metrics.watchProcess();
  process.on('message', (message: ToWorker) => {
    if (message.kind !== 'measure') return;
    const { question } = message;
    metrics.measure().then(
      (measured) => say({ kind: 'measured', question, measured }),
      (error: Error) => log.warn({ error: error.message }, 'the metrics could not be read'),
    );
  });
}

function ground(): Promise<Ground> {
  return new Promise((resolve) => {
    process.on('message', (message: ToWorker) => {
      if (message.kind === 'ground') resolve(message);
    });
    say({ kind: 'listening' });
  });
}

/** Once the first process is gone, nobody shares out the ports or restarts this one: it finishes what it has. */
function endWithFirst(log: Logger): void {
  const { worker } = cluster;
  worker?.once('disconnect', () => {
    // Otherwise Node would end the process here and now, in the middle of its conversations.
    worker.exitedAfterDisconnect = true;
    log.warn('the main process of this node has ended; finishing the work in progress');
    process.kill(process.pid, 'SIGTERM');
  });
}

/** A first process that is gone hears nothing, which is no error here. */
function say(message: FromWorker, then: () => void = () => undefined): void {
  if (process.connected) process.send?.(message, undefined, undefined, then);
  else then();
}
