import type { Database } from '../../db/client.ts';
import { rowOf, unseen } from '../../db/prepared.ts';
import type { EmailType, UncertainPolicy } from '../../generated/prisma/enums.ts';
import type { Stream } from '../../smtp/connections/sending-pools.ts';
import { stricter, type TlsDemand } from '../../smtp/policies/tls-policy.ts';
import type { TlsLevel } from '../../smtp/replies/tls-names.ts';
import { loadFiles } from '../emails/attachments.ts';
import type { StoredAttachment } from '../emails/draft.ts';
import type { FreshBodies, FreshBody } from '../emails/fresh-bodies.ts';
import { isErased } from '../returns/erased.ts';

/** A DKIM key of the sender's domain, as it is stored. */
export interface SealedKey {
  selector: string;
  sealed: Buffer;
}

/** Everything needed to build one email's bytes. */
export interface OutgoingEmail {
  id: string;
  accountId: string;
  type: EmailType;
  from: string;
  to: string[];
  cc: string[];
  replyTo: string[];
  subject: string;
  messageId: string;
  /** The stricter of what the email and its domain ask for. */
  tls: TlsDemand;
  /** What to do after an attempt that may have delivered it. */
  onUncertain: UncertainPolicy;
  /** The pool of sending addresses that its domain names; null: none. */
  pool: string | null;
  html: string | null;
  text: string | null;
  headers: [name: string, value: string][];
  attachments: (StoredAttachment & { content: Buffer })[];
  /** Set if its bodies and attachments were too large to be read: they are left out above, and it cannot be built. */
  unread?: Unread;
  /** When it became due: the time in its Date header, from which retries are counted. */
  dueAt: Date;
  /** Null if the domain was removed, or is no longer verified, since the email was accepted: it must not be sent. */
  signing: { domainId: string; domain: string; keys: SealedKey[] } | null;
  /** True if it was scheduled and its API key has been revoked since: it must not be sent. */
  revoked: boolean;
  /** True while its account is suspended: it must not be sent. */
  suspended: boolean;
  /** Its recipients that came onto the suppression list after it was accepted, in their comparable form. */
  suppressed: ReadonlySet<string>;
}

/** How much of an email was not read, in bytes. */
export interface Unread {
  bodies: number;
  files: number;
  /** Emails with the same files have the same key: each file is read once. */
  filesKey: string;
}

interface Row {
  id: string;
  account_id: string;
  type: EmailType;
  from: string;
  to: string[];
  cc: string[];
  reply_to: string[];
  subject: string;
  message_id: string;
  on_uncertain: UncertainPolicy;
  tls: TlsLevel;
  domain_tls: TlsLevel | null;
  pool: string | null;
  html: string | null;
  text: string | null;
  /** Its bodies were not read, because they are kept in memory. */
  fresh: boolean;
  body_bytes: number;
  file_bytes: number;
  headers: [string, string][];
  attachments: StoredAttachment[];
  due_at: Date;
  domain_id: string;
  domain: string | null;
  dkim_selector: string | null;
  dkim_private_key: Buffer | null;
  second_selector: string | null;
  second_key: Buffer | null;
  revoked: boolean;
  suspended: boolean;
  suppressed: string[];
}

/** An email with this many bytes of bodies and files is not loaded before its turn, nor together with many others. */
const large = 100_000;

/** The `most` of an email that is read however large it is. */
export const unbounded = 2 ** 31 - 1;

/**
 * SQL: how long the look into the suppression list at acceptance is good for a first attempt. If mail has waited longer, behind
 * other mail or for an operator, its recipient may have been suppressed since.
 */
const suppressionsFreshFor = '2 s';

/** An email to load. */
export interface Wanted {
  id: string;
  /** One of the recipients that it is loaded for has been tried: the suppression list may have changed since. */
  tried: boolean;
  /** It is loaded before its turn: then it is left out if it is large or has attachments. */
  ahead: boolean;
  /** If its bodies and files have this many bytes, they are not read (see `unread`). By default, if they are large. */
  most?: number;
}

/** SQL: an email's recipients on the suppression list, as they are stored there: the result of lower() depends on the locale. */
const suppressedOf = `ARRAY(SELECT x.address FROM suppressions x WHERE x.account_id = e.account_id AND x.address = ANY(e.recipient_addresses)
                             AND (x.reason <> 'unsubscribe' OR e.type = 'marketing'))`;

/** SQL: how many bytes the files that an email lists have. */
const sizeOfFiles = `SELECT coalesce(sum(octet_length(f.content)), 0)::integer FROM jsonb_to_recordset(c.attachments) AS listed (sha256 text)
                      CROSS JOIN LATERAL ${rowOf('attachments', "account_id = e.account_id AND sha256 = decode(listed.sha256, 'hex')")} f`;

/**
 * Loads emails for delivery. It takes one statement, and one more if they have attachments, or several for many megabytes.
 *
 * @param fresh of this process: bodies in there are not read, and are dropped once their email is loaded
 */
export async function load(db: Database, wanted: Wanted[], fresh: FreshBodies): Promise<Map<string, OutgoingEmail>> {
  const kept: KeptBodies = new Map(wanted.map(({ id }) => [id, fresh.of(id)]));
  const rows = await readRows(db, wanted, kept);
  const limits = new Map(wanted.map(({ id, most = large }) => [id, most]));
  const isWhole = (row: Row) => row.body_bytes + row.file_bytes < (limits.get(row.id) ?? large);
  const whole = rows.filter(isWhole);
  const contentOf = await loadContents(db, whole, kept);
  for (const { id } of whole) fresh.letGo(id);
  const keysOfDomains = new Map(rows.flatMap((row) => (row.dkim_private_key ? [[row.domain_id, keysOf(row)]] : [])));
  return new Map(
    rows.map((row) => {
      const content = isWhole(row) ? contentOf(row) : leftOut(row);
      return [row.id, present(row, keysOfDomains.get(row.domain_id) ?? [], content)];
    }),
  );
}

/** Bodies that are kept in memory, by the email's id. */
type KeptBodies = ReadonlyMap<string, FreshBody | undefined>;

function readRows(db: Database, wanted: Wanted[], kept: KeptBodies): Promise<Row[]> {
  return db.query<Row>({
    name: 'outgoing-load',
    text: `SELECT e.id, e.account_id, e.type, e."from", e."to", e.cc, e.reply_to, e.subject, e.message_id, e.on_uncertain, e.tls, d.tls AS domain_tls, d.pool, c.headers, c.attachments,
                  kept.fresh, weight.body_bytes, weight.file_bytes,
                  CASE WHEN NOT kept.fresh AND weight.body_bytes < wanted.most THEN c.html END AS html,
                  CASE WHEN NOT kept.fresh AND weight.body_bytes < wanted.most THEN c.text END AS text,
                  coalesce(e.scheduled_at, e.created_at) AS due_at, e.domain_id, d.domain, d.dkim_selector, s.selector AS second_selector,
                  -- Only in one row of each domain: a key is longer than most emails.
                  CASE row_number() OVER same WHEN 1 THEN d.dkim_private_key END AS dkim_private_key,
                  CASE row_number() OVER same WHEN 1 THEN s.private_key END AS second_key,
                  e.scheduled_at IS NOT NULL AND coalesce(k.revoked_at < now(), false) AS revoked,
                  a.suspended_at IS NOT NULL AS suspended,
                  CASE WHEN wanted.tried OR e.scheduled_at IS NOT NULL OR e.created_at < now() - interval '${suppressionsFreshFor}' THEN ${suppressedOf} ELSE '{}' END AS suppressed
             FROM unnest(${unseen('$1::uuid[]')}, ${unseen('$2::boolean[]')}, ${unseen('$3::boolean[]')}, ${unseen('$4::xid[]')}, ${unseen('$5::integer[]')}) AS wanted (id, tried, ahead, version, most)
            CROSS JOIN LATERAL ${rowOf('emails', 'id = wanted.id')} e
            CROSS JOIN LATERAL ${rowOf('email_contents', 'email_id = wanted.id', '*, xmin AS version')} c
            CROSS JOIN LATERAL (SELECT coalesce(c.version = wanted.version, false) AS fresh) kept
            CROSS JOIN LATERAL (SELECT coalesce(octet_length(c.html), 0) + coalesce(octet_length(c.text), 0) AS body_bytes,
                                       CASE WHEN c.attachments = '[]' THEN 0 ELSE (${sizeOfFiles}) END AS file_bytes) weight
             LEFT JOIN LATERAL ${rowOf('domains', "id = e.domain_id AND account_id = e.account_id AND status = 'verified'")} d ON true
             LEFT JOIN LATERAL ${rowOf('dkim_keys', "domain_id = d.id AND status = 'active'")} s ON true
             LEFT JOIN LATERAL ${rowOf('api_keys', 'id = e.api_key_id')} k ON true
            CROSS JOIN LATERAL ${rowOf('accounts', 'id = e.account_id')} a
            WHERE NOT wanted.ahead OR (c.attachments = '[]' AND weight.body_bytes < ${large})
           WINDOW same AS (PARTITION BY d.id)`,
    values: [
      wanted.map(({ id }) => id),
      wanted.map(({ tried }) => tried),
      wanted.map(({ ahead }) => ahead),
      wanted.map(({ id }) => kept.get(id)?.version),
      wanted.map(({ most = large }) => most),
    ],
  });
}

/** Reads the files of these emails, and puts the contents together. */
async function loadContents(db: Database, rows: Row[], kept: KeptBodies): Promise<(row: Row) => Content> {
  const files = rows.flatMap(({ account_id: accountId, attachments }) =>
    attachments.map(({ sha256 }) => ({ accountId, sha256 })),
  );
  const bytesOf = await loadFiles(db, files);
  return (row) => {
    const { html, text } = (row.fresh && kept.get(row.id)) || row;
    const attachments = row.attachments.map((file) => ({
      ...file,
      content: bytesOf({ accountId: row.account_id, sha256: file.sha256 }),
    }));
    return { html, text, attachments };
  };
}

/** Loads what decisions about an attempt need, for emails that are not sent now. */
export async function loadDue(
  db: Database,
  emailIds: string[],
): Promise<Map<string, Pick<OutgoingEmail, 'accountId' | 'dueAt' | 'onUncertain'>>> {
  const rows = await db.query<{ id: string; account_id: string; due_at: Date; on_uncertain: UncertainPolicy }>({
    text: `SELECT id, account_id, on_uncertain, coalesce(scheduled_at, created_at) AS due_at FROM emails WHERE id = ANY($1)`,
    values: [emailIds],
  });
  return new Map(
    rows.map((row) => [row.id, { accountId: row.account_id, dueAt: row.due_at, onUncertain: row.on_uncertain }]),
  );
}

/** The recipients of these emails that are on the suppression list now. */
export async function loadSuppressed(db: Database, emailIds: string[]): Promise<Map<string, ReadonlySet<string>>> {
  const rows = await db.query<{ id: string; suppressed: string[] }>({
    text: `SELECT e.id, ${suppressedOf} AS suppressed FROM emails e WHERE e.id = ANY($1)`,
    values: [emailIds],
  });
  return new Map(rows.map(({ id, suppressed }) => [id, new Set(suppressed)]));
}

/** For those of these emails that may be sent: what decides their pool, and when they became due. */
export async function loadStreams(db: Database, emailIds: string[]): Promise<Map<string, Stream & { dueAt: Date }>> {
  const rows = await db.query<Stream & { id: string; due_at: Date }>({
    name: 'outgoing-streams',
    text: `SELECT e.id, e.type, d.pool, coalesce(e.scheduled_at, e.created_at) AS due_at
             FROM emails e
             JOIN domains d ON d.id = e.domain_id AND d.account_id = e.account_id AND d.status = 'verified'
             JOIN accounts a ON a.id = e.account_id AND a.suspended_at IS NULL
             LEFT JOIN api_keys k ON k.id = e.api_key_id
            WHERE e.id = ANY(${unseen('$1::uuid[]')}::uuid[]) AND NOT (e.scheduled_at IS NOT NULL AND coalesce(k.revoked_at < now(), false))`,
    values: [emailIds],
  });
  return new Map(rows.map(({ id, type, pool, due_at: dueAt }) => [id, { type, pool, dueAt }]));
}

/** The words with which a refusal names the sending side's own TLS setting. */
export const tlsSetting = 'the TLS setting of';

/** What an email and its sender domain demand of TLS together. */
export function demandOf(ofEmail: TlsLevel, domain: string | null, ofDomain: TlsLevel | null): TlsDemand {
  const byDomain = { level: ofDomain ?? 'opportunistic', by: `${tlsSetting} ${domain}` };
  return stricter({ level: ofEmail, by: `${tlsSetting} this email` }, byDomain);
}

const isShown = (mailbox: string) => !isErased(mailbox);

const sealedKey = (selector: string | null, sealed: Buffer | null): SealedKey[] =>
  selector && sealed ? [{ selector, sealed }] : [];

/** The keys in a row of a domain: its own, and the second if it has one. */
export const keysOf = (
  row: Pick<Row, 'dkim_selector' | 'dkim_private_key' | 'second_selector' | 'second_key'>,
): SealedKey[] => [
  ...sealedKey(row.dkim_selector, row.dkim_private_key),
  ...sealedKey(row.second_selector, row.second_key),
];

type Content = Pick<OutgoingEmail, 'html' | 'text' | 'attachments' | 'unread'>;

/** The content of an email that is too large to be read now. */
function leftOut({ body_bytes: bodies, file_bytes: files, attachments }: Row): Content {
  const filesKey = attachments.map(({ sha256 }) => sha256).join();
  return { html: null, text: null, attachments: [], unread: { bodies, files, filesKey } };
}

function present(row: Row, keys: SealedKey[], content: Content): OutgoingEmail {
  const { domain } = row;
  return {
    id: row.id,
    accountId: row.account_id,
    type: row.type,
    from: row.from,
    // Recipients that have been erased since are not shown to the others.
    to: row.to.filter(isShown),
    cc: row.cc.filter(isShown),
    replyTo: row.reply_to.filter(isShown),
    subject: row.subject,
    messageId: row.message_id,
    onUncertain: row.on_uncertain,
    pool: row.pool,
    tls: demandOf(row.tls, domain, row.domain_tls),
    ...content,
    headers: row.headers,
    dueAt: row.due_at,
    signing: domain && keys.length > 0 ? { domainId: row.domain_id, domain, keys } : null,
    revoked: row.revoked,
    suspended: row.suspended,
    suppressed: new Set(row.suppressed),
  };
}
