import { noTls, type Objection, type TlsPolicy } from '../policies/tls-policy.ts';
import { isRefusal, isSuccess, type ParsedReply } from '../replies/reply.ts';
import { answered, type Classification, type Failure, type Phase } from '../replies/result.ts';
import { classify } from '../rules/classify.ts';
import { capabilitiesOf, noCapabilities } from './capabilities.ts';
import { type Connection, isLost, type Lost } from './connection.ts';
import type { Deadlines } from './deadlines.ts';

/** Why a connection did not become ready to take mail. */
export interface Refusal extends Failure {
  /** True if TLS was to blame and the same host may still take mail in clear. */
  tryClear: boolean;
  /** The policy's objection; null if the cause was something else. */
  objection: Objection | null;
}

export interface GreetOptions {
  /** The name to say EHLO with. */
  ehloName: string;
  /** Our own names, including `ehloName`: a server that greets with one of them is this server. */
  ownHosts: string[];
  /** False keeps the session in clear whatever is offered. */
  tls: boolean;
  /** What must hold before anything of a message is said. */
  policy: TlsPolicy;
  deadlines: Deadlines;
}

/**
 * On an open connection: reads the greeting, says EHLO (HELO if the server refuses EHLO) and starts TLS if offered.
 * Returns null if the connection is ready for a transaction; otherwise the connection is of no further use.
 */
export async function greet(connection: Connection, options: GreetOptions): Promise<Refusal | null> {
  const { deadlines } = options;
  const greeting = await connection.read(deadlines.greeting);
  if (isLost(greeting)) return refused(lostAt(connection, 'greeting', greeting));
  if (greeting.reply.code !== 220) return refused(refusedAt(connection, 'greeting', greeting));
  const named = greeting.lines[0]?.split(/\s/, 1)[0]?.toLowerCase() ?? '';
  if (options.ownHosts.some((own) => own.toLowerCase() === named)) {
    return refused(loop(connection));
  }

  const hello = await sayHello(connection, options);
  if (hello !== null) return hello;
  if (!options.tls || !connection.capabilities.startTls) {
    return options.policy.needsTls ? objected(connection, options.policy, noTls) : null;
  }
  const broken = await startTls(connection, deadlines);
  if (broken !== null) return options.policy.needsTls ? withoutClear(broken, options.policy) : broken;
  const objection = options.policy.mayUseConnection(connection);
  if (objection !== null) return objected(connection, options.policy, objection);
  const inside = await sayHello(connection, options);
  return inside?.tryClear && options.policy.needsTls ? withoutClear(inside, options.policy) : inside;
}

/** Temporary until the host is fixed: neither the message nor the network is to blame. */
export function refusedBy(policy: TlsPolicy, host: string, phase: Phase, { reason }: Objection): Failure {
  const sentence = `${host} ${reason}: refused by ${policy.source}.`;
  return { phase, reply: null, reason: sentence, enhanced: '4.7.0', class: 'protocol', permanent: false };
}

function objected(connection: Connection, policy: TlsPolicy, objection: Objection): Refusal {
  return { ...refused(refusedBy(policy, connection.target.host, 'starttls', objection)), objection };
}

function withoutClear(broken: Refusal, policy: TlsPolicy): Refusal {
  const reason = `${broken.reason.replace(/\.$/, '')}, and TLS is required by ${policy.source}.`;
  // The class `network` would hold back everybody's mail for the host.
  const kind = broken.class === 'network' ? 'protocol' : broken.class;
  const objection: Objection = { failure: 'validation-failure', reason: broken.reason };
  return { ...broken, reason, class: kind, tryClear: false, objection };
}

async function sayHello(connection: Connection, { ehloName, deadlines }: GreetOptions): Promise<Refusal | null> {
  connection.send(`EHLO ${ehloName}`);
  const ehlo = await connection.read(deadlines.ehlo);
  // With TLS 1.3 a server that refuses the handshake (it may want a certificate of ours) says so after it.
  if (isLost(ehlo))
    return connection.tls === null ? refused(lostAt(connection, 'ehlo', ehlo)) : brokenTls(connection, 'ehlo', ehlo);
  if (isSuccess(ehlo.reply)) {
    connection.capabilities = capabilitiesOf(ehlo.lines);
    return null;
  }
  connection.capabilities = noCapabilities;
  if (ehlo.reply.code === 421) return refused(refusedAt(connection, 'ehlo', ehlo));
  connection.send(`HELO ${ehloName}`);
  const helo = await connection.read(deadlines.ehlo);
  if (isLost(helo)) {
    // A server that refuses us, rather than the command, often hangs up with it.
    const isTheirs = helo.lost === 'closed' || helo.lost === 'timeout';
    return refused(isTheirs ? refusedAt(connection, 'ehlo', ehlo) : lostAt(connection, 'ehlo', helo));
  }
  return isSuccess(helo.reply) ? null : refused(refusedAt(connection, 'ehlo', helo));
}

async function startTls(connection: Connection, deadlines: Deadlines): Promise<Refusal | null> {
  connection.send('STARTTLS');
  const go = await connection.read(deadlines.starttls);
  if (isLost(go)) return brokenTls(connection, 'starttls', go);
  if (go.reply.code !== 220) return { ...refused(refusedAt(connection, 'starttls', go)), tryClear: true };
  // Discard what the server offered before TLS (RFC 3207 section 4.2).
  connection.capabilities = noCapabilities;
  const broken = await connection.secure(deadlines.starttls);
  return broken === null ? null : brokenTls(connection, 'starttls', broken);
}

function brokenTls(connection: Connection, phase: Phase, lost: Lost): Refusal {
  // A server that breaks the protocol here may be smuggling; an aborted attempt needs no other connection.
  const tryClear = lost.lost === 'timeout' || lost.lost === 'closed';
  return { ...refused(lostAt(connection, phase, lost)), tryClear };
}

/** A refusal for which neither TLS nor a policy is to blame. */
const refused = (failure: Failure): Refusal => ({ ...failure, tryClear: false, objection: null });

const lostClasses: Record<Lost['lost'], Classification> = {
  timeout: 'network',
  closed: 'network',
  protocol: 'protocol',
  aborted: 'other',
  ours: 'sender',
};

/** The failure of a phase during which the connection was lost. */
export function lostAt(connection: Connection, phase: Phase, { lost, reason }: Lost): Failure {
  return {
    phase,
    reply: null,
    reason: `${connection.target.host} ${reason}.`,
    enhanced: null,
    class: lostClasses[lost],
    permanent: false,
  };
}

/** Before a transaction every refusal is temporary: another host may take the mail, or this one later. */
function refusedAt(connection: Connection, phase: Phase, { reply }: ParsedReply): Failure {
  const { host } = connection.target;
  const reason = answered(host, reply, phase);
  const kind = isRefusal(reply) ? classify(phase, reply) : 'protocol';
  return { phase, reply, reason, enhanced: reply.enhanced, class: kind, permanent: false };
}

function loop(connection: Connection): Failure {
  const reason = `${connection.target.host} is this server itself: the mail would loop.`;
  return { phase: 'greeting', reply: null, reason, enhanced: '5.4.6', class: 'sender', permanent: true };
}
