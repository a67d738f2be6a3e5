import type { Sql } from '../../db/client.ts';
import type { AttemptOutcome } from '../../generated/prisma/enums.ts';
import { newId } from '../../ids.ts';
import type { Classification, Phase } from '../../smtp/replies/result.ts';
import type { TlsPolicyName } from '../../smtp/replies/tls-names.ts';

/** One row of the attempt log. Text from remote servers is cleaned and cut before it comes here. */
export interface AttemptRow {
  emailId: string;
  recipient: string;
  number: number;
  at: Date;
  durationMs: number;
  mxHost: string | null;
  remoteAddress: string | null;
  localAddress: string | null;
  tlsVersion: string | null;
  tlsCipher: string | null;
  /** The TLS policy that was met, or that forbade the connection; `none`: not encrypted, or there was no connection. */
  verification: TlsPolicyName | 'none';
  phase: Phase;
  outcome: AttemptOutcome;
  uncertain: boolean;
  replyCode: number | null;
  enhancedCode: string | null;
  reply: string | null;
  reason: string;
  classification: Classification | null;
  /** The lines of the SMTP session, in the first of its rows only: `[ms, by, text]`. */
  conversation: [number, string, string][] | null;
}

/** Those of these attempts that are not logged yet; an attempt is identified by its recipient and its start. */
export async function newAttempts(tx: Sql, attempts: AttemptRow[]): Promise<AttemptRow[]> {
  const rows = await tx.query<{ email_id: string; recipient: string; at: Date }>({
    text: 'SELECT email_id, recipient, at FROM attempts WHERE email_id = ANY($1)',
    values: [[...new Set(attempts.map((row) => row.emailId))]],
  });
  const known = new Set(rows.map((row) => `${row.email_id} ${row.recipient} ${row.at.getTime()}`));
  return attempts.filter(({ emailId, recipient, at }) => !known.has(`${emailId} ${recipient} ${at.getTime()}`));
}

/** Logs attempts, in one statement. */
export async function insertAttempts(tx: Sql, attempts: AttemptRow[]): Promise<void> {
  if (attempts.length === 0) return;
  const column = (read: (row: AttemptRow) => unknown) => attempts.map(read);
  await tx.query({
    name: 'attempts-insert',
    text: `INSERT INTO attempts (email_id, id, recipient, number, at, duration_ms, mx_host, remote_address, local_address, tls_version,
                                 tls_cipher, verification, phase, outcome, uncertain, reply_code, enhanced_code, reply, reason, classification, conversation)
           SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::smallint[], $5::timestamptz[], $6::integer[], $7::text[], $8::text[],
                  $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::attempt_outcome[], $15::boolean[], $16::smallint[],
                  $17::text[], $18::text[], $19::text[], $20::text[], $21::jsonb[])`,
    values: [
      column((row) => row.emailId),
      column(() => newId()),
      column((row) => row.recipient),
      column((row) => row.number),
      column((row) => row.at),
      column((row) => row.durationMs),
      column((row) => row.mxHost),
      column((row) => row.remoteAddress),
      column((row) => row.localAddress),
      column((row) => row.tlsVersion),
      column((row) => row.tlsCipher),
      column((row) => row.verification),
      column((row) => row.phase),
      column((row) => row.outcome),
      column((row) => row.uncertain),
      column((row) => row.replyCode),
      column((row) => row.enhancedCode),
      column((row) => row.reply),
      column((row) => row.reason),
      column((row) => row.classification),
      column((row) => row.conversation && JSON.stringify(row.conversation)),
    ],
  });
}
