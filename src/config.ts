import { ConfigError, Environment, missing, naming } from './config/environment.ts';
import { encryptionKey, jwtSecret, password } from './config/secrets.ts';
import {
  demandListed,
  parseEhloNames,
  parsePlan,
  parseSendingIps,
  parseWarmUp,
  withWarmUp,
} from './config/sending-ips.ts';
import {
  blocklistZones,
  dnsServer,
  duration,
  emailAddress,
  filePath,
  hostname,
  hostToListenOn,
  httpUrl,
  ipAddress,
  listOf,
  mailAddress,
  oneOf,
  portFrom,
  postgresUrl,
  privateNetworks,
  proxyCount,
  rateLimit,
  stopDelay,
  trueOrFalse,
  workerCount,
} from './config/values.ts';
import { quickSchedule, usualBlocklists, usualPlan } from './config/variables.ts';
import type { CertificateFiles } from './crypto/certificate.ts';
import { isOwnAddress } from './crypto/password.ts';
import type { PrivateNetworks } from './ip.ts';
import { grouped } from './numbers.ts';
import type { SendingPools } from './smtp/connections/sending-pools.ts';

const nodeRoles = ['api', 'mta', 'webhooks', 'smtp'] as const;
/** What a node does: answer calls, send mail, call endpoints, take mail by SMTP. */
export type NodeRole = (typeof nodeRoles)[number];

/** All settings, read and checked; `variables.ts` says what each of them means. */
export interface Config {
  /** Null: the embedded PostgreSQL in `dataDir`. */
  databaseUrl: string | null;
  dataDir: string;
  http: {
    host: string;
    port: number;
    /** The number of proxies in front; 0: the peer is the client. */
    proxies: number;
  };
  /** Without a slash at its end. */
  baseUrl: string;
  deliveryMode: 'sandbox' | 'direct';
  mailHostname: string;
  /** By source address, where it is not `mailHostname`. */
  ehloNames: ReadonlyMap<string, string>;
  /** Source addresses; empty: whatever the default route gives. */
  sendingIps: string[];
  /** The same by pool, with those that are new. */
  sendingPools: SendingPools;
  /** Path of the operator's limits per provider. */
  providersFile: string | null;
  /** `ip:port` or `ip`; null: the system's. */
  dnsServers: string[] | null;
  /** A resolver that validates DNSSEC, in the same form; null: DANE is not used. */
  daneResolver: string | null;
  mxPort: number;
  /** Which addresses outside the public internet webhooks and mail may go to. */
  allowPrivateNetworks: PrivateNetworks;
  allowUnsafeDatabase: boolean;
  startOnHold: boolean;
  smtp: {
    /** The address that the SMTP servers listen on; null: all. */
    host: string | null;
    /** Null: a certificate of our own. */
    tls: CertificateFiles | null;
    /** The addresses whose connections begin with the PROXY protocol. */
    proxies: string[];
  };
  /** 0: off. */
  ports: { inbound: number; submission: number; submissions: number };
  admin: { email: string; password: string | null };
  /** Null: generated into `dataDir`, which only the embedded database allows. */
  jwtSecret: string | null;
  encryptionKey: Buffer | null;
  /** The key that will replace it, or has; null: none. */
  nextEncryptionKey: Buffer | null;
  roles: ReadonlySet<NodeRole>;
  /** Processes that do this node's work; if there are several, another process starts them. */
  workers: number;
  /** Delays in ms between the attempts; the last one repeats until `retryForMs` after the email was due. */
  retryScheduleMs: number[];
  retryForMs: number;
  /** How long the ports stay open after SIGTERM, while `/readyz` fails. */
  stopDelayMs: number;
  /** The contact for questions about TLS reports; null: none are sent. */
  tlsReports: { contact: string } | null;
  /** The plan of accounts that are created without one. */
  defaultPlan: 'free' | 'pro' | 'unlimited';
  /** Zones that the doctor looks the sending addresses up in. */
  blocklists: string[];
  /** Where Prometheus reads; port 0: nowhere. */
  metrics: { host: string; port: number };
  /** Requests that each API key may make on this node. */
  rateLimit: { perSecond: number; burst: number };
  logLevel: string;
  /** See `Environment`. */
  misspelled: ReturnType<Environment['misspelled']>;
}

/**
 * Reads the environment once into a frozen object. An empty variable counts as unset; one in quotes is refused.
 *
 * @throws ConfigError naming the first variable that is wrong and what it must be
 */
export function readConfig(env: Record<string, string | undefined>): Readonly<Config> {
  const config = readVariables(new Environment(env));
  refuseContradictions(config);
  return Object.freeze(config);
}

function readVariables(env: Environment): Config {
  const deliveryMode = env.read('DELIVERY_MODE', oneOf(['sandbox', 'direct'] as const), 'sandbox');
  const sandbox = deliveryMode === 'sandbox';
  const databaseUrl = env.read('DATABASE_URL', postgresUrl, null);
  const host = env.read('HTTP_HOST', hostToListenOn, '127.0.0.1');
  const port = env.read('HTTP_PORT', portFrom(0), 3000);
  const addresses = env.readEntries('SENDING_IPS', parseSendingIps, []);
  const firstDays = env.readEntries('WARM_UP', parseWarmUp, new Map());
  const ehloNames = env.readEntries('EHLO_NAMES', parseEhloNames, new Map<string, string>());
  naming('EHLO_NAMES', () => demandListed(addresses, ehloNames.keys()));
  const reporting = env.read('TLS_REPORTS', oneOf(['on', 'off'] as const), 'on');
  const mailHostname = env.read('MAIL_HOSTNAME', hostname, sandbox ? 'mail.sendwright.test' : '');
  const contact = env.read('TLS_REPORTS_CONTACT', mailAddress, `postmaster@${mailHostname}`);
  return {
    databaseUrl,
    dataDir: env.read('DATA_DIR', filePath, './data'),
    http: {
      host,
      port,
      proxies: env.read('TRUSTED_PROXIES', proxyCount, 0),
    },
    baseUrl: env.read('BASE_URL', httpUrl, `http://localhost:${port}`),
    deliveryMode,
    mailHostname,
    ehloNames,
    sendingIps: addresses.map(({ ip }) => ip),
    sendingPools: {
      addresses: naming('WARM_UP', () => withWarmUp(addresses, firstDays)),
      plan: env.readEntries('WARM_UP_PLAN', parsePlan, parsePlan(usualPlan)),
    },
    providersFile: env.read('PROVIDERS_FILE', filePath, null),
    dnsServers: env.read('DNS_SERVERS', listOf(dnsServer), null),
    daneResolver: env.read('DANE_RESOLVER', dnsServer, null),
    mxPort: env.read('MX_PORT', portFrom(1), 25),
    allowPrivateNetworks: env.read('ALLOW_PRIVATE_NETWORKS', privateNetworks, false),
    allowUnsafeDatabase: env.read('ALLOW_UNSAFE_DATABASE', trueOrFalse, false),
    startOnHold: env.read('START_ON_HOLD', trueOrFalse, false),
    smtp: {
      host: env.read('SMTP_HOST', hostToListenOn, sandbox ? host : null),
      tls: certificateFiles(env.read('SMTP_TLS_CERT', filePath, null), env.read('SMTP_TLS_KEY', filePath, null)),
      proxies: env.read('SMTP_PROXIES', listOf(ipAddress), []),
    },
    ports: {
      inbound: env.read('INBOUND_SMTP_PORT', portFrom(0), 2525),
      submission: env.read('SUBMISSION_PORT', portFrom(0), 2587),
      submissions: env.read('SUBMISSIONS_PORT', portFrom(0), 2465),
    },
    admin: {
      email: env.read('ADMIN_EMAIL', emailAddress, 'admin@localhost'),
      password: env.read('ADMIN_PASSWORD', password, null),
    },
    jwtSecret: env.read('JWT_SECRET', jwtSecret, null),
    encryptionKey: env.read('ENCRYPTION_KEY', encryptionKey, null),
    nextEncryptionKey: env.read('ENCRYPTION_KEY_NEXT', encryptionKey, null),
    roles: new Set(env.read('ROLES', listOf(oneOf(nodeRoles)), [...nodeRoles])),
    workers: env.read('WORKERS', workerCount, 1),
    retryScheduleMs: env.read(
      'RETRY_SCHEDULE',
      listOf(duration),
      (sandbox ? quickSchedule : '1m,5m,15m,30m,1h,2h,4h,6h').split(',').map(duration),
    ),
    retryForMs: env.read('RETRY_FOR', duration, duration('72h')),
    stopDelayMs: env.read('STOP_DELAY', stopDelay, 0),
    tlsReports: reporting === 'on' && !sandbox ? { contact } : null,
    defaultPlan: env.read('DEFAULT_PLAN', oneOf(['free', 'pro', 'unlimited'] as const), 'free'),
    blocklists: env.read('DNS_BLOCKLISTS', blocklistZones, usualBlocklists.split(',')),
    metrics: {
      host: env.read('METRICS_HOST', hostToListenOn, '127.0.0.1'),
      port: env.read('METRICS_PORT', portFrom(0), 0),
    },
    rateLimit: env.read('RATE_LIMIT', rateLimit, { perSecond: 50, burst: 100 }),
    logLevel: env.read('LOG_LEVEL', oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const), 'info'),
    misspelled: env.misspelled(),
  };
}

/** What each variable allows by itself, but not together with another one. */
function refuseContradictions(config: Config): void {
  const { deliveryMode, mailHostname, databaseUrl, jwtSecret, encryptionKey, nextEncryptionKey, workers, admin } =
    config;
  if (!mailHostname) throw missing('MAIL_HOSTNAME', 'the public name of this host, when DELIVERY_MODE is direct');
  if (databaseUrl && !jwtSecret) throw missing('JWT_SECRET', 'at least 32 characters, when DATABASE_URL is set');
  if (databaseUrl && !encryptionKey) {
    throw missing('ENCRYPTION_KEY', '32 bytes as 64 hexadecimal digits or as base64, when DATABASE_URL is set');
  }
  if (nextEncryptionKey && !encryptionKey)
    throw missing('ENCRYPTION_KEY', 'the current key, when ENCRYPTION_KEY_NEXT is set');
  if (encryptionKey && nextEncryptionKey?.equals(encryptionKey))
    throw new ConfigError('ENCRYPTION_KEY_NEXT must be a different key from ENCRYPTION_KEY');
  if (admin.password !== null && isOwnAddress(admin.password, admin.email))
    throw new ConfigError('ADMIN_PASSWORD must not be ADMIN_EMAIL, which anybody would try first');
  if (deliveryMode === 'sandbox' && workers > 1) {
    throw new ConfigError(
      `WORKERS must be 1 when DELIVERY_MODE is sandbox, not ${workers}: its DNS and mailbox run in one process`,
    );
  }
  refusePortTwice(config);
  refuseEndlessTrying(config);
}

/** Where this node listens, by the variable of the port. */
interface Door {
  name: string;
  /** Null: every address. */
  host: string | null;
  port: number;
}

/** Whether this node speaks SMTP to anybody, and so shows a certificate. */
export const hasSmtpPort = ({ roles, ports }: Config): boolean =>
  roles.has('smtp') && Object.values(ports).some((port) => port !== 0);

/** Where this node listens, but for ports that the system chooses. */
function doorsOf({ roles, http, smtp, ports, metrics }: Config): Door[] {
  const mail = (name: string, port: number) => (roles.has('smtp') ? [{ name, host: smtp.host, port }] : []);
  return [
    ...mail('INBOUND_SMTP_PORT', ports.inbound),
    ...mail('SUBMISSION_PORT', ports.submission),
    ...mail('SUBMISSIONS_PORT', ports.submissions),
    ...(roles.has('api') ? [{ name: 'HTTP_PORT', ...http }] : []),
    { name: 'METRICS_PORT', ...metrics },
  ].filter(({ port }) => port !== 0);
}

/** Otherwise the error for a port that this node itself has taken would blame another program. */
function refusePortTwice(config: Config): void {
  const doors = doorsOf(config);
  for (const [index, { name, host, port }] of doors.entries()) {
    const other = doors.slice(0, index).find((one) => one.port === port && overlap(one.host, host));
    if (other) throw new ConfigError(`${name} must be a different port from ${other.name}, not ${port}`);
  }
}

/** Whether two listeners on the same port would collide. */
function overlap(one: string | null, other: string | null): boolean {
  const isAll = (host: string | null) => host === null || host === '::';
  const isAllIpv4 = (host: string | null, beside: string | null) => host === '0.0.0.0' && !beside?.includes(':');
  return one === other || isAll(one) || isAll(other) || isAllIpv4(one, other) || isAllIpv4(other, one);
}

/** The database counts a recipient's attempts in two bytes. */
const mostAttempts = 30_000;

function refuseEndlessTrying({ retryScheduleMs, retryForMs }: Config): void {
  const listed = retryScheduleMs.reduce((sum, delay) => sum + delay, 0);
  const last = retryScheduleMs.at(-1) ?? retryForMs;
  const attempts = retryScheduleMs.length + Math.ceil(Math.max(0, retryForMs - listed) / last);
  if (attempts <= mostAttempts) return;
  const most = `RETRY_SCHEDULE must lead to at most ${grouped(mostAttempts)} attempts within RETRY_FOR, not ${grouped(attempts)}`;
  throw new ConfigError(`${most}: make its last delay longer, or RETRY_FOR shorter`);
}

function certificateFiles(cert: string | null, key: string | null): CertificateFiles | null {
  if (cert && key) return { cert, key };
  if (cert) throw missing('SMTP_TLS_KEY', 'a PEM file with the key of SMTP_TLS_CERT');
  if (key) throw missing('SMTP_TLS_CERT', 'a PEM file with the certificate of SMTP_TLS_KEY');
  return null;
}
