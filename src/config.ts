import { encryptionKey, jwtSecret, password } from './config-secrets.ts';
import { parsePlan, parseSendingIps, parseWarmUp, withWarmUp } from './config-sending-ips.ts';
import {
  blocklistZones,
  dnsServer,
  duration,
  emailAddress,
  filePath,
  hostname,
  hostToListenOn,
  httpUrl,
  listOf,
  mailAddress,
  oneOf,
  portFrom,
  postgresUrl,
  privateNetworks,
  proxyCount,
  rateLimit,
  ShownValueError,
  trueOrFalse,
  workerCount,
} from './config-values.ts';
import { quickSchedule, usualBlocklists, usualPlan } from './config-variables.ts';
import type { PrivateNetworks } from './ip.ts';
import type { SendingPools } from './sending-pools.ts';

export type NodeRole = 'api' | 'mta' | 'webhooks' | 'smtp';

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
    /** Paths of PEM files; null: a certificate of our own. */
    tls: { cert: string; key: string } | null;
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
  /** Delays in ms between the attempts; the last one repeats until `retryForMs` after acceptance. */
  retryScheduleMs: number[];
  retryForMs: number;
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
}

/** A variable of the environment that cannot be used; the message is the one line that an operator needs. */
export class ConfigError extends Error {}

/**
 * Reads the environment once into a frozen object. An empty variable counts as unset; one in quotes is refused.
 *
 * @throws ConfigError naming the first variable that is wrong and what it must be
 */
export function readConfig(env: Record<string, string | undefined>): Readonly<Config> {
  const given = (name: string): string | null => {
    const text = env[name]?.trim() || null;
    if (text !== null && /^(["']).*\1$/s.test(text))
      throw new ConfigError(
        `${name} must be set without quotes around the value: some tools, such as docker run --env-file, keep them as part of it`,
      );
    return text;
  };
  const read = <T>(name: string, parse: (text: string) => T, fallback: T): T => {
    const text = given(name);
    if (text === null) return fallback;
    try {
      return parse(text);
    } catch (error) {
      const end = error instanceof ShownValueError ? '' : butNot(name, text);
      throw new ConfigError(`${name} must be ${(error as Error).message}${end}`);
    }
  };
  const readEntries = <T>(name: string, parse: (text: string) => T, fallback: T): T => {
    const text = given(name);
    return text === null ? fallback : naming(name, () => parse(text));
  };
  const deliveryMode = read('DELIVERY_MODE', oneOf(['sandbox', 'direct'] as const), 'sandbox');
  const sandbox = deliveryMode === 'sandbox';
  const databaseUrl = read('DATABASE_URL', postgresUrl, null);
  const host = read('HTTP_HOST', hostToListenOn, '127.0.0.1');
  const port = read('HTTP_PORT', portFrom(0), 3000);
  const addresses = readEntries('SENDING_IPS', parseSendingIps, []);
  const firstDays = readEntries('WARM_UP', parseWarmUp, new Map());
  const reporting = read('TLS_REPORTS', oneOf(['on', 'off'] as const), 'on');
  const mailHostname = read('MAIL_HOSTNAME', hostname, sandbox ? 'mail.sendwright.test' : '');
  const contact = read('TLS_REPORTS_CONTACT', mailAddress, `postmaster@${mailHostname}`);
  const config: Config = {
    databaseUrl,
    dataDir: read('DATA_DIR', filePath, './data'),
    http: {
      host,
      port,
      proxies: read('TRUSTED_PROXIES', proxyCount, 0),
    },
    baseUrl: read('BASE_URL', httpUrl, `http://localhost:${port}`),
    deliveryMode,
    mailHostname,
    sendingIps: addresses.map(({ ip }) => ip),
    sendingPools: {
      addresses: naming('WARM_UP', () => withWarmUp(addresses, firstDays)),
      plan: readEntries('WARM_UP_PLAN', parsePlan, parsePlan(usualPlan)),
    },
    providersFile: read('PROVIDERS_FILE', filePath, null),
    dnsServers: read('DNS_SERVERS', listOf(dnsServer), null),
    daneResolver: read('DANE_RESOLVER', dnsServer, null),
    mxPort: read('MX_PORT', portFrom(1), 25),
    allowPrivateNetworks: read('ALLOW_PRIVATE_NETWORKS', privateNetworks, false),
    allowUnsafeDatabase: read('ALLOW_UNSAFE_DATABASE', trueOrFalse, false),
    startOnHold: read('START_ON_HOLD', trueOrFalse, false),
    smtp: {
      host: read('SMTP_HOST', hostToListenOn, sandbox ? host : null),
      tls: certificateFiles(read('SMTP_TLS_CERT', filePath, null), read('SMTP_TLS_KEY', filePath, null)),
    },
    ports: {
      inbound: read('INBOUND_SMTP_PORT', portFrom(0), 2525),
      submission: read('SUBMISSION_PORT', portFrom(0), 2587),
      submissions: read('SUBMISSIONS_PORT', portFrom(0), 2465),
    },
    admin: {
      email: read('ADMIN_EMAIL', emailAddress, 'admin@localhost'),
      password: read('ADMIN_PASSWORD', password, null),
    },
    jwtSecret: read('JWT_SECRET', jwtSecret, null),
    encryptionKey: read('ENCRYPTION_KEY', encryptionKey, null),
    nextEncryptionKey: read('ENCRYPTION_KEY_NEXT', encryptionKey, null),
    roles: new Set(
      read('ROLES', listOf(oneOf(['api', 'mta', 'webhooks', 'smtp'] as const)), ['api', 'mta', 'webhooks', 'smtp']),
    ),
    workers: read('WORKERS', workerCount, 1),
    retryScheduleMs: read(
      'RETRY_SCHEDULE',
      listOf(duration),
      (sandbox ? quickSchedule : '1m,5m,15m,30m,1h,2h,4h,6h').split(',').map(duration),
    ),
    retryForMs: read('RETRY_FOR', duration, duration('72h')),
    tlsReports: reporting === 'on' && !sandbox ? { contact } : null,
    defaultPlan: read('DEFAULT_PLAN', oneOf(['free', 'pro', 'unlimited'] as const), 'free'),
    blocklists: read('DNS_BLOCKLISTS', blocklistZones, usualBlocklists.split(',')),
    metrics: {
      host: read('METRICS_HOST', hostToListenOn, '127.0.0.1'),
      port: read('METRICS_PORT', portFrom(0), 0),
    },
    rateLimit: read('RATE_LIMIT', rateLimit, { perSecond: 50, burst: 100 }),
    logLevel: read('LOG_LEVEL', oneOf(['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const), 'info'),
  };
  if (!config.mailHostname)
    throw missing('MAIL_HOSTNAME', 'the public name of this host, when DELIVERY_MODE is direct');
  if (databaseUrl && !config.jwtSecret) throw missing('JWT_SECRET', 'at least 32 characters, when DATABASE_URL is set');
  if (databaseUrl && !config.encryptionKey) {
    throw missing('ENCRYPTION_KEY', '32 bytes as 64 hexadecimal digits or as base64, when DATABASE_URL is set');
  }
  if (config.nextEncryptionKey && !config.encryptionKey)
    throw missing('ENCRYPTION_KEY', 'the current key, when ENCRYPTION_KEY_NEXT is set');
  if (config.encryptionKey && config.nextEncryptionKey?.equals(config.encryptionKey))
    throw new ConfigError('ENCRYPTION_KEY_NEXT must be a different key from ENCRYPTION_KEY');
  if (sandbox && config.workers > 1) {
    throw new ConfigError(
      `WORKERS must be 1 when DELIVERY_MODE is sandbox, not ${config.workers}: its DNS and mailbox run in one process`,
    );
  }
  refusePortTwice(config);
  refuseEndlessTrying(config);
  return Object.freeze(config);
}

/** Where this node listens, by the variable of the port. */
interface Door {
  name: string;
  /** Null: every address. */
  host: string | null;
  port: number;
}

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
  const most = `RETRY_SCHEDULE must lead to at most ${mostAttempts} attempts within RETRY_FOR, not ${attempts}`;
  throw new ConfigError(`${most}: make its last delay longer, or RETRY_FOR shorter`);
}

function certificateFiles(cert: string | null, key: string | null): { cert: string; key: string } | null {
  if (cert && key) return { cert, key };
  if (cert) throw missing('SMTP_TLS_KEY', 'a PEM file with the key of SMTP_TLS_CERT');
  if (key) throw missing('SMTP_TLS_CERT', 'a PEM file with the certificate of SMTP_TLS_KEY');
  return null;
}

/** For errors that already name the entry of the variable. */
function naming<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ConfigError(`${name}: ${(error as Error).message}`);
  }
}

const missing = (name: string, must: string) => new ConfigError(`${name} is missing: it must be ${must}`);

const secretNames = new Set([
  'DATABASE_URL',
  'ADMIN_PASSWORD',
  'JWT_SECRET',
  'ENCRYPTION_KEY',
  'ENCRYPTION_KEY_NEXT',
  // Its path is no secret, but the content of the file, given by mistake, is.
  'SMTP_TLS_KEY',
]);

function butNot(name: string, text: string): string {
  const holdsPassword = /\/\/[^/]*@/.test(text);
  return secretNames.has(name) || holdsPassword
    ? ' (the value is not shown)'
    : `, not ${JSON.stringify(text.slice(0, 100))}`;
}
