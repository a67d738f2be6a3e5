import {
  closeSync,
  ftruncateSync,
  futimesSync,
  mkdirSync,
  openSync,
  readdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Claim } from '../../core/recipients/recipients.ts';
import { newId } from '../../ids.ts';
import type { Logger } from '../../log.ts';
import type { OpenSession, RecipientResult } from '../../smtp/deliver.ts';
import { isAbandoned, journalName, touchEveryMs } from './journal-owner.ts';

/** What is known before a final dot is written: its claim and its session. */
export interface PendingDot {
  /** With only the recipients that the dot is for. */
  claim: Claim;
  session: OpenSession;
}

/** One line of a journal. `n` counts dots within the file. */
export type JournalLine = { n: number; dot: PendingDot } | { n: number; results: RecipientResult[] };

/** A file larger than this is emptied once none of its dots is open; until then, new dots go to another file. */
const fileBytes = 1_000_000;
const complainEveryMs = 60_000;

/** A file of the journal. */
interface JournalFile {
  path: string;
  fd: number;
  /** Lines for the next write. */
  pending: string;
  /** Written or pending. */
  bytes: number;
  dots: number;
  /** How many of its dots are not in the database yet. */
  open: number;
  /** The disk became full within the last line. */
  isTorn: boolean;
}

interface NotedDot {
  file: JournalFile;
  n: number;
}

/** The journals that this process is writing: their names alone do not distinguish them from those it has closed. */
const ours = new Set<string>();

/**
 * Keeps what a killed process would know and the database does not: each final dot, on disk before it is sent, and the
 * answer to it. Writes go through the system's cache without a sync, so they survive the process but not the machine. If the
 * journal cannot be written, mail goes on without it, and the log says so.
 */
export class Journal {
  readonly #folder: string;
  readonly #log: Logger;
  readonly #touchMs: number;
  readonly #files = new Set<JournalFile>();
  /** Each claim's dots; null: it could not be noted. */
  readonly #dots = new Map<Claim, (NotedDot | null)[]>();
  #current: JournalFile | null = null;
  #writing: Promise<void> | null = null;
  #complainedAt = Number.NEGATIVE_INFINITY;
  #touching: NodeJS.Timeout | undefined;

  constructor(folder: string, log: Logger, touchMs = touchEveryMs) {
    this.#folder = folder;
    this.#log = log;
    this.#touchMs = touchMs;
  }

  /**
   * Notes that the final dot for these recipients of the claim is about to be written. Resolves when the note is on disk; one
   * write takes all notes of the same turn of the event loop.
   */
  dot(claim: Claim, recipients: string[], session: OpenSession): Promise<void> {
    const concerned = claim.recipients.filter(({ address }) => recipients.includes(address));
    const noted = this.#try((): NotedDot => {
      const file = this.#fileToWrite();
      const n = file.dots;
      append(file, { n, dot: { claim: { ...claim, recipients: concerned }, session } });
      file.dots += 1;
      file.open += 1;
      return { file, n };
    });
    // Also null, if it could not be noted: without a place of its own, its answer would count as that to the dot before it.
    const dots = this.#dots.get(claim);
    if (dots) dots.push(noted);
    else this.#dots.set(claim, [noted]);
    return this.#write();
  }

  /** Notes the answer to the claim's last dot. The next write brings it to disk, in this turn of the event loop or the next. */
  answer(claim: Claim, results: RecipientResult[]): void {
    const last = this.#dots.get(claim)?.at(-1);
    if (!last) return;
    append(last.file, { n: last.n, results });
    void this.#write();
  }

  /** Says that the database has everything about this claim. */
  recorded(claim: Claim): void {
    for (const { file } of this.#dots.get(claim)?.filter((dot) => dot !== null) ?? []) {
      file.open -= 1;
      if (file.open === 0 && file.bytes > fileBytes) this.#try(() => this.#empty(file));
    }
    this.#dots.delete(claim);
  }

  /** Closes all files, and leaves those with open dots for the next start. */
  close(): void {
    clearInterval(this.#touching);
    this.#writeAll();
    for (const file of this.#files) {
      this.#try(() => closeSync(file.fd));
      if (file.open === 0) this.#try(() => unlinkSync(file.path));
      ours.delete(file.path);
    }
    this.#files.clear();
    this.#current = null;
  }

  #fileToWrite(): JournalFile {
    if (this.#current && this.#current.bytes <= fileBytes) return this.#current;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const path = join(this.#folder, journalName(newId()));
    const file = { path, fd: openSync(path, 'ax', 0o600), pending: '', bytes: 0, dots: 0, open: 0, isTorn: false };
    ours.add(path);
    this.#files.add(file);
    this.#current = file;
    this.#touching ??= setInterval(() => this.#touch(), this.#touchMs).unref();
    return file;
  }

  /** Shows nodes that cannot see this process that it is alive, even if it has nothing to write. */
  #touch(): void {
    const now = new Date();
    for (const file of this.#files) this.#try(() => futimesSync(file.fd, now, now));
  }

  #write(): Promise<void> {
    this.#writing ??= new Promise((written) => {
      setImmediate(() => {
        this.#writing = null;
        this.#writeAll();
        written();
      });
    });
    return this.#writing;
  }

  #writeAll(): void {
    for (const file of this.#files) this.#try(() => flush(file));
  }

  #empty(file: JournalFile): void {
    file.pending = '';
    if (file === this.#current) {
      ftruncateSync(file.fd);
      file.isTorn = false;
      file.bytes = 0;
      file.dots = 0;
      return;
    }
    this.#files.delete(file);
    closeSync(file.fd);
    unlinkSync(file.path);
    ours.delete(file.path);
  }

  #try<T>(work: () => T): T | null {
    try {
      return work();
    } catch (error) {
      if (performance.now() - this.#complainedAt < complainEveryMs) return null;
      this.#complainedAt = performance.now();
      this.#log.error(
        { error: (error as Error).message, folder: this.#folder },
        'the journal of deliveries cannot be written: mail goes out all the same, but if this process is killed now, some may go out twice',
      );
      return null;
    }
  }
}

function append(file: JournalFile, line: JournalLine): void {
  const text = `${JSON.stringify(line)}\n`;
  file.pending += text;
  file.bytes += text.length;
}

function flush(file: JournalFile): void {
  if (file.pending === '') return;
  // On the same line as the torn one, the next would be lost as well.
  const bytes = Buffer.from(file.isTorn ? `\n${file.pending}` : file.pending);
  file.pending = '';
  const written = writeSync(file.fd, bytes);
  if (written > 0) file.isTorn = written < bytes.length;
  if (written < bytes.length) throw new Error('only a part of it was written');
}

/**
 * The journals in this folder whose process is gone.
 *
 * @param alone true if no other process can be running on this folder, whatever the pids say
 */
export function abandonedJournals(folder: string, alone: boolean): string[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names
    .sort()
    .map((name) => join(folder, name))
    .filter((path) => !ours.has(path) && isAbandoned(path, alone));
}
