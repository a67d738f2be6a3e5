import type Koa from 'koa';
import type { Config } from '../config.ts';
import type { FreshBodies } from '../core/emails/fresh-bodies.ts';
import type { TokenKeys } from '../core/secrets/service-secrets.ts';
import type { Database } from '../db/client.ts';
import { type HttpServer, listen } from '../http/server.ts';
import type { SubmissionAddress } from '../http/services.ts';
import { type ReturnsServer, startReturnsServer } from '../inbound/returns-server.ts';
import type { ServedCertificate } from '../inbound/served-certificate.ts';
import { type SubmissionServer, startSubmission } from '../inbound/submission.ts';
import type { Logger } from '../log.ts';
import type { AccountTurns } from '../pace/account-turns.ts';
import type { TokenBuckets } from '../pace/rate-limit.ts';
import { portError } from '../process/start-error.ts';
import type { Queue } from '../queue.ts';
import { Trouble } from '../trouble.ts';

/** What is behind the ports of a node. */
interface Behind {
  config: Config;
  db: Database;
  queue: Queue;
  fresh: FreshBodies;
  /** The turns in which accounts commit what is large. */
  commitTurns: AccountTurns;
  certificate: ServedCertificate;
  log: Logger;
}

const submissionPortsOf = ({ roles, ports: { submission, submissions } }: Config) =>
  roles.has('smtp')
    ? { submission: submission || null, submissions: submissions || null }
    : { submission: null, submissions: null };

/** The host that programs submit mail to: a sandbox is tried on its own machine. */
export const submissionHostOf = ({ deliveryMode, mailHostname }: Config): string =>
  deliveryMode === 'direct' ? mailHostname : 'localhost';

/** What people enter into such a program; null if this node has neither of the ports. */
export function submissionAddressOf(config: Config): SubmissionAddress | null {
  const { submission, submissions } = submissionPortsOf(config);
  if (submission === null && submissions === null) return null;
  return {
    host: submissionHostOf(config),
    starttlsPort: submission,
    tlsPort: submissions,
    selfSigned: !config.smtp.tls,
  };
}

/** Opens the ports for programs that submit mail, as far as this node has them. */
export async function openSubmission(
  { config, db, queue, fresh, commitTurns, certificate, log }: Behind,
  limiter: TokenBuckets,
): Promise<SubmissionServer> {
  const { mailHostname, smtp } = config;
  const ports = submissionPortsOf(config);
  if (ports.submission === null && ports.submissions === null)
    return { ports, showCertificate() {}, close: async () => {} };
  const server = await startSubmission({
    db,
    queue,
    fresh,
    commitTurns,
    log,
    host: smtp.host,
    ports,
    name: mailHostname,
    tls: await certificate.ofStart(),
    proxies: smtp.proxies,
    limiter,
  });
  certificate.use(server);
  return server;
}

/** Opens the port for bounces and complaints; null if this node has none. */
export async function openInbound(
  { config, db, queue, certificate, log }: Behind,
  keys: TokenKeys,
): Promise<ReturnsServer | null> {
  const { roles, mailHostname, smtp, ports } = config;
  if (!roles.has('smtp') || ports.inbound === 0) return null;
  const server = await startReturnsServer({
    db,
    queue,
    log,
    host: mailHostname,
    keys,
    listenOn: smtp.host,
    port: ports.inbound,
    tls: await certificate.ofStart(),
    proxies: smtp.proxies,
  });
  certificate.use(server);
  return server;
}

/** Opens the port of the REST API. */
export async function openHttp(app: Koa, { config, log }: Pick<Behind, 'config' | 'log'>): Promise<HttpServer> {
  const crowded = new Trouble(log, {
    failing: 'clients have as many connections to the REST API as there may be: further ones are turned away',
  });
  const onTurnedAway = (most: number) => crowded.failed(new Error(`${most} connections are open`));
  try {
    return await listen(app, config.http.host, config.http.port, { onTurnedAway });
  } catch (error) {
    throw portError({ port: 'HTTP_PORT', host: 'HTTP_HOST' }, config.http, error as NodeJS.ErrnoException);
  }
}
