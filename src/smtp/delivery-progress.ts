import type { Connection } from './connections/connection.ts';
import { type Failure, failed, localFailure, type RecipientResult, type Session } from './replies/result.ts';
import type { TlsPolicyName } from './replies/tls-names.ts';
import type { SeriesEnd } from './series.ts';
import type { SessionReports, Start } from './session-reports.ts';

/** What a delivery has come to so far: whom the next host is to be tried for, and what the hosts together mean for them. */
export class DeliveryProgress {
  /** The recipients to try at the next host. */
  recipientsLeft: string[];
  /** Those of them that each get a message alone. */
  readonly alone = new Set<string>();
  /** A host that may take the message for those whom one recipient kept from getting it; null: there is none. */
  again: string | null = null;
  /** Some host tried so far may take the mail later. */
  laterMayHelp = false;
  readonly #recipients: string[];
  readonly #reports: SessionReports;
  /** Why the last host that is ruled out for good will never take the mail. */
  #ruledOut: Failure | null = null;

  constructor(recipients: string[], reports: SessionReports) {
    this.#recipients = recipients;
    this.recipientsLeft = recipients;
    this.#reports = reports;
  }

  /** True if none of the hosts tried so far will ever take the mail. */
  get isRuledOut(): boolean {
    return this.#ruledOut !== null && !this.laterMayHelp;
  }

  /** Forgets what ruled the hosts out: others are responsible now. */
  startOver(): void {
    this.#ruledOut = null;
  }

  /** Records what a host made of the message. */
  answered(
    start: Start,
    connection: Connection,
    { results, elsewhere, waiting, alone, again }: SeriesEnd,
    how: Pick<Session, 'reused' | 'verification'>,
  ): void {
    const judged = results.map((result) => this.#judged(result));
    this.#reports.end(start, connection, judged, how);
    this.recipientsLeft = [...elsewhere, ...waiting];
    if (alone.length > 0) this.#setApart(alone);
    if (again) this.again = connection.target.host;
    this.laterMayHelp = true;
  }

  /** Records that a host, or the whole destination, took nothing. */
  fail(start: Start, at: Connection | string | null, failure: Failure, forbiddenBy?: TlsPolicyName): void {
    if (failure.permanent) this.#ruledOut = failure;
    else this.laterMayHelp = true;
    // Permanent only once all hosts were asked: see `conclude`.
    const results = this.recipientsLeft.map((recipient) => failed(recipient, { ...failure, permanent: false }));
    this.#reports.end(start, at, results, { reused: false, verification: forbiddenBy ?? 'none' });
  }

  /**
   * Gives those who are left their final result: a failure is permanent if all hosts were asked and none will ever take the
   * mail.
   *
   * @param how `aborted`: the attempt was ended early; `stopped`: no other host may be asked
   */
  conclude({ aborted, stopped }: { aborted: boolean; stopped: boolean }): void {
    const last = this.#reports.all.at(-1);
    const failure = this.isRuledOut ? this.#ruledOut : null;
    // An attempt that was ended early has not asked every host; the others may well take it.
    if (failure !== null && !aborted && last !== undefined)
      last.results = this.recipientsLeft.map((recipient) => failed(recipient, failure));
    const named = new Set(this.#reports.all.flatMap((session) => session.results.map(({ recipient }) => recipient)));
    const unnamed = this.#recipients.filter((recipient) => !named.has(recipient));
    if (unnamed.length > 0) this.#defer(unnamed, aborted || stopped ? 'other' : 'rate');
  }

  #defer(recipients: string[], kind: Failure['class']): void {
    const failure = localFailure('The attempt ended before this recipient was tried.', kind);
    const results = recipients.map((recipient) => failed(recipient, failure));
    this.#reports.end(this.#reports.start(), null, results, { reused: false, verification: 'none' });
  }

  /** Puts these recipients last. */
  #setApart(recipients: string[]): void {
    for (const recipient of recipients) this.alone.add(recipient);
    const others = this.recipientsLeft.filter((recipient) => !this.alone.has(recipient));
    this.recipientsLeft = [...others, ...this.recipientsLeft.filter((recipient) => this.alone.has(recipient))];
  }

  /** What this host is unable to take, a host that said "later" or was not reached may still take. */
  #judged(result: RecipientResult): RecipientResult {
    return this.laterMayHelp && result.phase === 'local' ? { ...result, outcome: 'deferred' } : result;
  }
}
