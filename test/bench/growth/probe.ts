import { appendFileSync } from 'node:fs';
import pg from 'pg';

/**
 * Loaded into the server before anything else (`--import`): once a second it writes its memory and the duration of its
 * statements, from sending one to having its answer, as a line of JSON into the file that GROWTH_PROBE names.
 */

export interface Sample {
  at: number;
  /** Bytes. */
  memory: NodeJS.MemoryUsage;
  /** ms of each statement since the last sample, by its name or its first words. */
  statements: Record<string, number[]>;
}

export const fetching = 'fetch of jobs';

const everyMs = 1_000;
const nameLength = 60;

interface Query {
  name?: string;
  text?: string;
}

function nameOf(query: string | Query): string {
  const { name, text = '' } = typeof query === 'string' ? { text: query } : query;
  if (/pgboss\.\w+[\s\S]*SKIP LOCKED/.test(text)) return fetching;
  return name ?? text.trim().replace(/\s+/g, ' ').slice(0, nameLength);
}

function watch(file: string): void {
  let statements: Sample['statements'] = {};
  const { query } = pg.Client.prototype;
  // biome-ignore lint/suspicious/noExplicitAny: whatever is passed is passed on
  pg.Client.prototype.query = function timed(this: pg.Client, ...args: any[]): any {
    const began = performance.now();
    const result = Reflect.apply(query, this, args);
    const note = () => {
      const name = nameOf(args[0]);
      statements[name] ??= [];
      statements[name].push(Number((performance.now() - began).toFixed(2)));
    };
    if (result instanceof Promise) result.then(note, note);
    return result;
  };
  setInterval(() => {
    const sample: Sample = { at: Date.now(), memory: process.memoryUsage(), statements };
    statements = {};
    appendFileSync(file, `${JSON.stringify(sample)}\n`);
  }, everyMs).unref();
}

if (process.env.GROWTH_PROBE !== undefined) watch(process.env.GROWTH_PROBE);
