import { generateKeyPairSync, sign } from 'node:crypto';
import { promisify } from 'node:util';
import pg from 'pg';
import { cpuSeconds } from './processes.ts';
import type { Sendwright } from './sendwright.ts';

/**
 * What this machine currently achieves in the work that every email needs: one RSA-2048 signature and one commit of one
 * row.
 */
export interface Calibration {
  perSecond: number;
  /** CPU-seconds per 1,000, including PostgreSQL's share. */
  cpu: number;
}

const atOnce = 16;
const connections = 8;
const signAsync = promisify(sign);
const signed = Buffer.alloc(500, 'a header, canonical ');

/** Repeats it for this long, on the server's PostgreSQL. */
export async function calibrate(app: Sendwright, ms: number): Promise<Calibration> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const pool = new pg.Pool({ connectionString: app.databaseUrl('postgres'), max: connections });
  await pool.query('CREATE TABLE IF NOT EXISTS calibration (id bigint GENERATED ALWAYS AS IDENTITY, signature bytea)');
  const before = used(app);
  const started = performance.now();
  let done = 0;
  const loop = async () => {
    for (; performance.now() - started < ms; done += 1) {
      const signature = await signAsync('rsa-sha256', signed, privateKey);
      await pool.query({ name: 'row', text: 'INSERT INTO calibration (signature) VALUES ($1)', values: [signature] });
    }
  };
  await Promise.all(Array.from({ length: atOnce }, loop));
  const seconds = (performance.now() - started) / 1_000;
  const cpu = ((used(app) - before) / done) * 1_000;
  await pool.query('DROP TABLE calibration');
  await pool.end();
  return { perSecond: done / seconds, cpu };
}

function used(app: Sendwright): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6 + cpuSeconds(app.database?.roots ?? []);
}
