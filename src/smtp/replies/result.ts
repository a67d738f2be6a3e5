import { cutText } from '../../mail/text/characters.ts';
import type { SpokenLine } from './conversation.ts';
import type { Reply } from './reply.ts';
import type { TlsPolicyName } from './tls-names.ts';

/** The step of a delivery at which something was decided. `local` is our own decision, without asking the server. */
export type Phase = 'dns' | 'connect' | 'greeting' | 'ehlo' | 'starttls' | 'mail' | 'rcpt' | 'data' | 'dot' | 'local';

/** The steps before the mail transaction begins. */
export const beforeMail: readonly Phase[] = ['dns', 'connect', 'greeting', 'ehlo', 'starttls'];

/** What a failure is about. Only `bad_mailbox` and `bad_domain` mean that nobody is at the address. */
export type Classification =
  | 'bad_mailbox'
  | 'bad_domain'
  | 'mailbox_full'
  | 'content'
  | 'policy'
  | 'authentication'
  | 'rate'
  | 'network'
  | 'protocol'
  | 'sender'
  | 'other';

/** True if the class means that nobody is at the address. No other class may suppress the address. */
export const saysNobodyThere = (about: Classification | null): boolean =>
  about === 'bad_mailbox' || about === 'bad_domain';

/** What became of one recipient in one session. */
export interface RecipientResult {
  recipient: string;
  outcome: 'delivered' | 'deferred' | 'bounced';
  phase: Phase;
  /** Null if no server's reply decided: DNS, time-outs, lost connections and our own refusals. */
  reply: Reply | null;
  /** One sentence for people. */
  reason: string;
  /** RFC 3463 code: the server's, or ours for a local decision. */
  enhanced: string | null;
  /** Null when delivered. */
  class: Classification | null;
  /** True when the final dot was written and no reply was read: the server may have taken the message. */
  uncertain: boolean;
}

/** One try at one host. `host` and `remoteAddress` are null when it ended before there was one. */
export interface Session {
  startedAt: Date;
  durationMs: number;
  host: string | null;
  remoteAddress: string | null;
  localAddress: string | null;
  /** Null when the message went, or would have gone, in clear. */
  tls: TlsInfo | null;
  /** The policy that was in force or forbade the session; `none`: in clear, or there was no connection. */
  verification: TlsPolicyName | 'none';
  /** True if the connection had carried an earlier message. */
  reused: boolean;
  /** What was looked up, decided and said, without the message content. */
  conversation: SpokenLine[];
  results: RecipientResult[];
}

/** How a connection is encrypted, and by which certificate. */
export interface TlsInfo {
  /** Such as `TLSv1.3`. */
  version: string;
  /** The cipher's IANA name. */
  cipher: string;
  /** True if the certificate is valid for the MX host name; opportunistic TLS does not require that. */
  authorized: boolean;
  /** What is wrong with the certificate, in OpenSSL's or Node's words; null: nothing. */
  problem: string | null;
}

/** The sessions in the order tried; a recipient's outcome is in the last session that lists it. */
export interface Delivery {
  sessions: Session[];
}

/** Why a step failed for everything that depended on it. */
export interface Failure {
  phase: Phase;
  reply: Reply | null;
  reason: string;
  enhanced: string | null;
  class: Classification;
  /** True if trying again later cannot help. */
  permanent: boolean;
}

/** A failure that is our own decision, without asking the server; it does not rule out a later attempt. */
export function localFailure(reason: string, about: Classification): Failure {
  return { phase: 'local', reply: null, reason, enhanced: null, class: about, permanent: false };
}

/** A failure as one recipient's result. */
export function failed(recipient: string, failure: Failure, uncertain = false): RecipientResult {
  const { phase, reply, reason, enhanced } = failure;
  const outcome = failure.permanent ? 'bounced' : 'deferred';
  return { recipient, outcome, phase, reply, reason, enhanced, class: failure.class, uncertain };
}

const commands: Record<Phase, string> = {
  dns: 'the look-up',
  connect: 'the connection',
  greeting: 'the connection',
  ehlo: 'EHLO',
  starttls: 'STARTTLS',
  mail: 'MAIL FROM',
  rcpt: 'RCPT TO',
  data: 'DATA',
  dot: 'the message',
  local: 'this server',
};

/** The sentence that reports a decisive reply. */
export function answered(host: string, reply: Reply, phase: Phase): string {
  const said = [reply.code, reply.enhanced, cutText(reply.text, 400)].filter((part) => part !== null && part !== '');
  return `${host} answered ${commands[phase]} with: ${said.join(' ')}`;
}
