import { type TlsReportOptions, TlsReports } from '../../src/chores/tls-reports.ts';
import { Keyring } from '../../src/crypto/seal.ts';
import { connect, type Database } from '../../src/db/client.ts';
import { type Logger, silentLog } from '../../src/log.ts';
import { noPools } from '../../src/smtp/connections/sending-pools.ts';
import { createTransport, type TransportOptions } from '../../src/smtp/transport.ts';
import { createDatabase } from '../support/db.ts';
import { testKey } from '../support/keys.ts';
import { startZone, type Zone, type ZoneEntry } from '../support/zone.ts';

type Test = { teardown(work: () => Promise<void>): void };

export const encryptionKey = testKey(7);
export const contact = 'tls@out.sender.test';
export const day = '2026-11-21';

export interface Scene {
  db: Database;
  zone: Zone;
  /** The time of day for all nodes, in the morning after `day`. */
  clock: { at: Date; now(): Date; forward(ms: number): void };
  /** Another node on the same database. */
  node(options?: Partial<TlsReportOptions>, transport?: Partial<TransportOptions>): TlsReports;
  /** The tasks with a place, by place. */
  tasks(): Promise<TaskRow[]>;
}

export interface TaskRow {
  domain: string;
  uri: string;
  state: string;
  tries: number;
  first_try_at: Date;
  next_try_at: Date | null;
  last_error: string | null;
}

/**
 * A database and a zone in which these domains want reports at these places; `reports.test` and `mx.test` are
 * 127.0.0.1.
 */
export async function startScene(
  t: Test,
  wanted: Record<string, string[]> = {},
  zoneOf: Record<string, ZoneEntry> = {},
  mxPort = 25,
): Promise<Scene> {
  const db = connect(await createDatabase(), silentLog, 10);
  t.teardown(() => db.close());
  const records = Object.entries(wanted).map(([domain, TXT]) => [`_smtp._tls.${domain}`, { TXT }]);
  const zone = await startZone({
    'reports.test': { A: ['127.0.0.1'] },
    'mx.test': { A: ['127.0.0.1'] },
    ...Object.fromEntries(records),
    ...zoneOf,
  });
  t.teardown(() => zone.close());
  const clock = {
    at: new Date('2026-11-22T06:00:00Z'),
    now: () => clock.at,
    forward: (ms: number) => {
      clock.at = new Date(clock.at.getTime() + ms);
    },
  };
  return {
    db,
    zone,
    clock,
    node(options = {}, transportOptions = {}) {
      const transport = createTransport({
        ehloName: 'out.sender.test',
        resolver: zone.resolver,
        mxPort,
        allowPrivate: true,
        ...transportOptions,
      });
      const common = {
        transport,
        contact,
        keyring: new Keyring(encryptionKey),
        pools: noPools,
        log: silentLog,
        clock,
        spreadMs: 0,
      };
      const reports = new TlsReports(db, { ...common, ...options });
      t.teardown(async () => {
        await reports.close();
        await transport.close();
      });
      return reports;
    },
    tasks: () =>
      db.query<TaskRow>({
        text: `SELECT domain, uri, state, tries, first_try_at, next_try_at, last_error FROM tls_reports
                WHERE uri <> '' ORDER BY domain, uri`,
      }),
  };
}

/** Counts recorded by nodes: one successful session for each of these domains. */
export async function addResults(db: Database, domains: string[], on = day): Promise<void> {
  await db.query({
    text: `INSERT INTO tls_results (day, domain, policy_type, policy, mx, result, host, address, local_address, reason, sessions, kind)
           SELECT $1::date, domain, 'no-policy-found', '{}', '{}', 'success', 'mx.test', '192.0.2.1', '192.0.2.9', '', 1, '\\x00'
             FROM unnest($2::text[]) AS d (domain)`,
    values: [on, domains],
  });
}

/** A logger that keeps what it logs. */
export function keepingLog(): { log: Logger; lines: { level: string; message: string; fields: object }[] } {
  const lines: { level: string; message: string; fields: object }[] = [];
  const at = (level: string) => (fields: object, message: string) => void lines.push({ level, message, fields });
  const log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') } as unknown as Logger;
  return { log, lines };
}
