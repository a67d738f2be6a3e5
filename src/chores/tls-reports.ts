import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type Clock, systemClock } from '../clock.ts';
import * as hold from '../core/operations/hold.ts';
import { keysFor } from '../core/outgoing/own-signing.ts';
import { type Claim, claim, lastSettledDay, load, type Outcome, plan, settle } from '../core/tls/tls-reports.ts';
import type { Keyring } from '../crypto/seal.ts';
import type { Database } from '../db/client.ts';
import { isAway } from '../db/errors.ts';
import type { Logger } from '../log.ts';
import type { Mailbox } from '../mail/address/address.ts';
import { sign } from '../mail/compose/dkim.ts';
import type { DkimKey } from '../mail/compose/dkim-key.ts';
import { composeReportMail, type ReportedPolicy, submitterOf, writeReport } from '../mail/compose/tls-report.ts';
import { BatchWriter } from '../pace/batch-writer.ts';
import type { Rounds } from '../pace/rounds.ts';
import { within } from '../pace/within.ts';
import { before } from '../smtp/calls/checked-socket.ts';
import { ConnectionPool } from '../smtp/connections/pool.ts';
import { dayOf, type SendingPools, warmUpOn } from '../smtp/connections/sending-pools.ts';
import { deliver, type Transport } from '../smtp/deliver.ts';
import { TlsPolicies } from '../smtp/policies/tls-policies.ts';
import { cleanRemoteText } from '../smtp/replies/reply.ts';
import { postReport } from '../smtp/reports/report-post.ts';
import { findReportUris, parseReportUri } from '../smtp/reports/report-uris.ts';
import { TlsResults } from '../smtp/reports/tls-results.ts';

export interface TlsReportOptions {
  /** Provides resolver, addresses and connections; reports follow no TLS policy and are not counted. */
  transport: Transport;
  /** The address for questions about a report; its domain is the reporter. */
  contact: string;
  keyring: Keyring;
  pools: SendingPools;
  log: Logger;
  clock?: Clock;
  /** A day's reports start at random moments within this time. */
  spreadMs?: number;
}

/** Why a report was not taken. */
interface Refusal {
  reason: string;
  /** True if trying again cannot help. */
  final: boolean;
  /** True if the reason is the same for all reports, and was logged already. */
  known?: boolean;
}

const roundMs = 60_000;
/** RFC 8460 section 4.1. */
const usualSpreadMs = 4 * 3_600_000;
/** RFC 8460 section 5.5: retries go on for a day from the first attempt, with growing pauses. */
const triedForMs = 24 * 3_600_000;
const firstPauseMs = 5 * 60_000;
const lookUpsAtOnce = 50;
const reportsAtOnce = 10;
const mailTimeoutMs = 3 * 60_000;
const lastWordsMs = 5_000;

/** Sends what is due, every minute. */
export function startTlsReports(rounds: Rounds, db: Database, options: TlsReportOptions): TlsReports {
  const reports = new TlsReports(db, options);
  rounds.every(roundMs, 'TLS reports', () => reports.round());
  return reports;
}

/**
 * Tells domains once a day how their servers handled TLS (TLS-RPT, RFC 8460). The work is rows that one node at a time claims:
 * a report goes to each place once, and once more if a node dies while it sends.
 */
export class TlsReports {
  readonly #db: Database;
  readonly #options: TlsReportOptions;
  readonly #transport: Transport;
  readonly #clock: Clock;
  readonly #writer: BatchWriter<Outcome, undefined>;
  readonly #stop = new AbortController();
  #plannedUntil = '';
  #saidUnsigned = false;

  constructor(db: Database, options: TlsReportOptions) {
    this.#db = db;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#transport = {
      ...options.transport,
      // RFC 8460 section 3: reports must arrive even if TLS fails, and are not counted in the next one.
      tlsPolicies: new TlsPolicies(),
      tlsResults: new TlsResults(),
      pool: new ConnectionPool({ maxIdle: 0 }),
    };
    this.#writer = new BatchWriter(options.log, {
      what: 'TLS reports',
      write: async (outcomes) => {
        await settle(this.#db, outcomes, this.#clock.now());
        return () => undefined;
      },
      isItsFault: (error) => !isAway(error),
    });
  }

  /** Does everything that is due, and what becomes due meanwhile: a slow report holds up no other. */
  async round(): Promise<void> {
    const lookUps = new Set<Promise<void>>();
    const sendings = new Set<Promise<void>>();
    const underWay = () => [...lookUps, ...sendings];
    let ended = 0;
    const track = (works: Set<Promise<void>>, work: Promise<void>) => {
      const tracked = work.finally(() => {
        works.delete(tracked);
        ended += 1;
      });
      works.add(tracked);
    };
    try {
      for (;;) {
        const seen = ended;
        await this.#planDays();
        for (const one of await this.#claim('look-up', lookUpsAtOnce - lookUps.size)) track(lookUps, this.#lookUp(one));
        const claims = await this.#claim('sending', reportsAtOnce - sendings.size);
        for (const sending of await this.#sendAll(claims)) track(sendings, sending);
        this.#transport.tlsResults.take();
        // A look-up that ended meanwhile may have found a place to send to.
        if (ended !== seen) continue;
        if (underWay().length === 0) return;
        await firstOf(underWay());
      }
    } finally {
      await Promise.all(underWay());
    }
  }

  async #planDays(): Promise<void> {
    const now = this.#clock.now();
    const until = lastSettledDay(now);
    if (until !== this.#plannedUntil) await plan(this.#db, this.#options.spreadMs ?? usualSpreadMs, now);
    this.#plannedUntil = until;
  }

  /** Aborts what is under way; another node or the next start continues it. */
  async close(): Promise<void> {
    this.#writer.giveUpAfter(lastWordsMs);
    this.#stop.abort();
  }

  async #claim(kind: Parameters<typeof claim>[1], room: number): Promise<Claim[]> {
    if (room <= 0 || this.#stop.signal.aborted) return [];
    // On hold, this may be a copy of a service that has sent them.
    if ((await hold.find(this.#db)) !== null) return [];
    return claim(this.#db, kind, room, this.#clock.now());
  }

  async #lookUp(one: Claim): Promise<void> {
    const found = await before(this.#stop.signal, findReportUris(this.#transport.resolver, one.domain)).catch(
      (error: Error) => ({ failure: error.message }),
    );
    if ('failure' in found) await this.#failed(one, { reason: found.failure, final: false });
    else await this.#writer.add({ claim: one, state: 'done', nextTryAt: null, error: null, uris: found.uris });
  }

  /** Begins to send them. */
  async #sendAll(claims: Claim[]): Promise<Promise<void>[]> {
    if (claims.length === 0) return [];
    const { contact, keyring } = this.#options;
    const policiesOf = await load(this.#db, claims);
    let loaded: Promise<DkimKey[]> | undefined;
    // Loaded once, and only if a report goes by mail.
    const keys = () => {
      loaded ??= keysFor(this.#db, keyring, submitterOf({ contact }));
      return loaded;
    };
    return claims.map(async (one) => {
      const refusal = await this.#send(one, policiesOf(one), keys).catch((error: Error): Refusal => {
        this.#options.log.error({ ...about(one), error: error.stack }, 'a TLS report could not be generated');
        return { reason: 'it could not be generated; see the log of the server', final: false };
      });
      if (refusal !== null) return this.#failed(one, refusal);
      this.#options.log.info(about(one), 'a TLS report was sent');
      await this.#writer.add({ claim: one, state: 'done', nextTryAt: null, error: null, uris: [] });
    });
  }

  async #send(one: Claim, policies: ReportedPolicy[], keys: () => Promise<DkimKey[]>): Promise<Refusal | null> {
    const place = parseReportUri(one.uri);
    if (place === null || policies.length === 0) return { reason: 'there is nothing to send', final: true };
    const { day, domain } = one;
    const report = { day, domain, contact: this.#options.contact };
    const packed = await promisify(gzip)(writeReport({ ...report, policies }));
    if (place.by === 'mail') {
      const message = composeReportMail(report, packed, { to: place.to, date: this.#clock.now() });
      return this.#mail(one, message, place.to, await keys());
    }
    const reason = await postReport(this.#transport, place.url, packed, this.#stop.signal);
    return reason === null ? null : { reason, final: false };
  }

  async #mail(one: Claim, message: Buffer, to: Mailbox, keys: DkimKey[]): Promise<Refusal | null> {
    if (keys.length === 0) return this.#unsigned();
    const sendingIps = this.#settledIps();
    if (sendingIps?.length === 0)
      return { reason: 'all sending addresses are in warm-up and have no messages left', final: false };
    const signature = await sign(message, keys, this.#clock.now());
    const { sessions } = await deliver(this.#transport, {
      destination: to.domain,
      // Nobody reads bounces of reports.
      envelope: { from: '', recipients: [to.address], smtpUtf8: false },
      message: [signature, message],
      sendingIps,
      // A node that was frozen meanwhile has lost its claim.
      beforeDot: () => this.#clock.now() < one.until,
      signal: AbortSignal.any([this.#stop.signal, AbortSignal.timeout(mailTimeoutMs)]),
    });
    const result = sessions.flatMap(({ results }) => results).at(-1);
    if (result?.outcome === 'delivered') return null;
    return { reason: cleanRemoteText(result?.reason ?? 'it was not tried', 500), final: result?.outcome === 'bounced' };
  }

  #unsigned(): Refusal {
    const submitter = submitterOf(this.#options);
    if (!this.#saidUnsigned) {
      this.#options.log.warn(
        { submitter },
        'TLS reports by mail are not sent because they must be signed: add and verify this domain or a parent of it',
      );
    }
    this.#saidUnsigned = true;
    return { reason: `there is no DKIM key for ${submitter}`, final: true, known: true };
  }

  /** The addresses that are not new: what a new one may send is for other mail. Undefined: the system chooses. */
  #settledIps(): string[] | undefined {
    const { addresses, plan: warmUpPlan } = this.#options.pools;
    const today = dayOf(this.#clock.now());
    const settled = addresses.filter((address) => warmUpOn(today, address, warmUpPlan) === null);
    return addresses.length === 0 ? undefined : settled.map(({ ip }) => ip);
  }

  async #failed(one: Claim, { reason, final, known }: Refusal): Promise<void> {
    const pauseMs = firstPauseMs * 2 ** (one.tries - 1);
    // An attempt that this server aborts is no answer of theirs: the next start continues it.
    const ended = this.#stop.signal.aborted;
    const next = new Date(this.#clock.now().getTime() + (ended ? 0 : pauseMs));
    const again = ended || (!final && next.getTime() <= one.firstTryAt.getTime() + triedForMs);
    const { log } = this.#options;
    const fields = { ...about(one), error: reason, tries: one.tries };
    if (one.uri === '') log.debug(fields, 'the TLS report addresses of a domain could not be looked up');
    else if (again) log.info({ ...fields, nextTryAt: next }, 'a TLS report could not be sent; it is tried again');
    else if (!known) log.warn(fields, 'a TLS report could not be sent; giving up');
    const state = again ? 'waiting' : 'failed';
    await this.#writer.add({ claim: one, state, nextTryAt: again ? next : null, error: reason, uris: [] });
  }
}

/** Resolves when one of them is over, or others may have become due. */
const firstOf = (works: Promise<void>[]): Promise<void> => within(roundMs, Promise.race(works), undefined);

const about = ({ day, domain, uri }: Claim) => ({ day, domain, uri });
