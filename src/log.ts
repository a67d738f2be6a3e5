import { type Logger, pino } from 'pino';
import { isJournald, JournaldLines } from './journald.ts';
import { isFile, LogFile, type Output } from './log-file.ts';

export type { Logger };

const secrets = ['password', 'token', 'secret', 'key', 'authorization', 'apiKey', 'html', 'text', 'content'];

/**
 * The process's logger: one JSON object a line on stdout, for whatever ships logs to read; short lines for people if stdout
 * is a terminal. Text from clients and remote servers goes in as fields, never into the message.
 *
 * @param base fields of each line, if several processes write to one stream
 * @param journalStream the `JOURNAL_STREAM` of the environment
 */
export function createLog(
  level: string,
  stdout: Output,
  { base = null, journalStream }: { base?: Record<string, unknown> | null; journalStream?: string | undefined } = {},
): Logger {
  const options = {
    level,
    base,
    redact: { paths: secrets.flatMap((name) => [name, `*.${name}`]), remove: true },
  };
  if (stdout.isTTY) return pino(options, { write: (line: string) => stdout.write(forTerminal(line)) });
  if (isJournald(stdout, journalStream)) return pino(options, new JournaldLines(stdout));
  if (!isFile(stdout)) return pino(options, stdout);
  const log: Logger = pino(
    options,
    new LogFile(stdout.fd, (lines, error) =>
      log.warn({ lines, error }, 'lines of the log were lost, as they could not be written'),
    ),
  );
  return log;
}

/** A logger that says nothing, for tests and for tools that print for themselves. */
export const silentLog: Logger = pino({ level: 'silent' });

function forTerminal(line: string): string {
  const { level, time, msg, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const name = pino.levels.labels[Number(level)] ?? 'info';
  const rest = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : '';
  return `${new Date(Number(time)).toISOString().slice(11, 19)} ${name.padEnd(5)} ${String(msg ?? '')}${rest}\n`;
}
