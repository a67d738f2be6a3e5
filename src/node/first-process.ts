import { watchMachine } from '../chores/machine.ts';
import type { Config } from '../config.ts';
import * as nodes from '../core/nodes/nodes.ts';
import { Rounds } from '../pace/rounds.ts';
import { exposition } from '../process/metrics.ts';
import { openMetrics } from '../process/metrics-port.ts';
import { TakenPorts } from '../process/start-error.ts';
import { keep, Lifetime, type Stops } from '../process/stops.ts';
import { prepareAdmin } from './admin.ts';
import { connectionsOf, openDatabase, poolOfFirst } from './database.ts';
import { noteHold } from './hold.ts';
import { recoverJournals } from './journals.ts';
import { machineOf } from './machine.ts';
import type { Foundation, SendwrightNode } from './node.ts';
import type { Ground } from './worker.ts';
import { type Ports, Workers } from './workers.ts';

/** Then there is nothing under way, and the first process only has to say goodbye to the database. */
const goodbyeMs = 1_500;

/**
 * Starts `WORKERS` processes that each do the work of a node, and does what is done once: the schema, the first admin, a look
 * at the machine now and then, and making up for a process that dies. Incoming connections go to each of them in turn.
 *
 * @param stops the steps that stop it all; it grows during the start
 * @throws StartError; the caller stops what had been started
 */
export async function startWorkers(
  config: Config,
  foundation: Foundation,
  stops: Stops,
): Promise<Ports & Pick<SendwrightNode, 'db' | 'admin'>> {
  const { databaseUrl, jwtSecret, keyring, log, delay } = foundation;
  const connections = { pool: poolOfFirst, needed: connectionsOf(config.workers) };
  const life = new Lifetime(log, goodbyeMs);
  stops.push(() => life.end());
  const opened = await openDatabase(config, foundation, life, connections);
  const { db } = opened;
  const listener = nodes.reportHeld(log, opened.queue);
  const admin = await prepareAdmin(db, config.admin);
  await recoverJournals(config, foundation, opened);
  await noteHold(db, config, log);
  if (foundation.alone) await nodes.removeAll(db, listener);
  life.goOn();
  db.hurry();
  const rounds = new Rounds(log);
  life.stops.push(() => rounds.stop());
  watchMachine(rounds, db, machineOf(config), log);
  const ground: Ground = {
    kind: 'ground',
    databaseUrl: named(databaseUrl),
    jwtSecret,
    encryptionKeys: keyring.all.map(({ key }) => key.toString('base64')),
    taken: [],
  };
  const makeUpFor = async (names: string[]) => {
    await recoverJournals(config, { alone: false, log }, opened);
    for (const name of names) await nodes.removeCrashed(db, name, listener);
  };
  const workers = new Workers({ ground, makeUpFor, log });
  stops.push(() => workers.stop(delay?.isCut));
  ground.taken = await openMetricsOf(workers, config, stops);
  life.goOn();
  return { ...(await workers.start(config.workers)), db, admin };
}

/**
 * Opens the port for Prometheus, if there is to be one, before any worker sends something.
 *
 * @returns that port if it is taken: the workers name it along with theirs
 */
async function openMetricsOf(workers: Workers, { metrics }: Config, stops: Stops): Promise<TakenPorts['ports']> {
  if (metrics.port === 0) return [];
  try {
    await keep(
      stops,
      openMetrics(metrics, async () => exposition(await workers.measure())),
      (door) => door.close(),
    );
    return [];
  } catch (error) {
    if (error instanceof TakenPorts) return error.ports;
    throw error;
  }
}

/** Sessions of workers are recognized by their name: see `EmbeddedPostgres.left`. */
function named(databaseUrl: string): string {
  const url = new URL(databaseUrl);
  if (!url.searchParams.has('application_name')) url.searchParams.set('application_name', 'sendwright worker');
  return url.href;
}
