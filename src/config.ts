import { encryptionKey, jwtSecret, password } from './config-secrets.ts';
import {
  dnsServer,
  duration,
  emailAddress,
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
  trueOrFalse,
  workerCount,
} from './config-values.ts';
import type { PrivateNetworks } from './ip.ts';
import { parsePlan, parseSendingIps, parseWarmUp, type SendingPools, withWarmUp } from './sending-pools.ts';

export type NodeRole = 'api' | 'mta' | 'webhooks' | 'smtp';

export interface Config {
  /** Null: the embedded PostgreSQL in `dataDir`. */
  databaseUrl: string | null;
  dataDir: string;
  http: {
    host: string;
    port: number;
    /** How many proxies stand in front; 0: the peer is the client. */
    proxies: number;
  };
  /** Without a slash at its end. */
  baseUrl: string;
  deliveryMode: 'sandbox' | 'direct';
  mailHostname: string;
  /** Source addresses; empty: whatever the default route gives. */
  sendingIps: string[];
  /** The same by pool, and which of them are new. */
  sendingPools: SendingPools;
  /** Path of the operator's limits per provider. */
  providersFile: string | null;
  /** `ip:port` or `ip`; null: the system's. */
  dnsServers: string[] | null;
  /** A resolver that validates DNSSEC, in the same form; null: DANE is not looked at. */
  daneResolver: string | null;
  mxPort: number;
  /** Which addresses outside the public internet webhooks and mail may go to. */
  allowPrivateNetworks: PrivateNetworks;
  allowUnsafeDatabase: boolean;
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
  /** The one that is to take its place, or has; null: none. */
  nextEncryptionKey: Buffer | null;
  roles: ReadonlySet<NodeRole>;
  /** Processes that do this node's work; more than one have another that starts them. */
  workers: number;
  /** Delays in ms between the attempts; the last one repeats until `retryForMs` after acceptance. */
  retryScheduleMs: number[];
  retryForMs: number;
  /** Who is to be asked about TLS reports; null: none are sent. */
  tlsReports: { contact: string } | null;
  /** The plan of accounts that are created without one. */
  defaultPlan: 'free' | 'pro' | 'unlimited';
  /** Requests that each API key may make on this node. */
  rateLimit: { perSecond: number; burst: number };
  logLevel: string;
}

/** A variable of the environment that cannot be used; the message is the one line that an operator needs. */
export class ConfigError extends Error {}

/** One variable as the documentation lists it: docs/config.md is made from these. */
export interface Variable {
  name: string;
  fallback: string;
  meaning: string;
}

const quickSchedule = '5s,15s,1m,5m';
const usualPlan = '50,100,250,500,1000,2500,5000,10000,20000,40000,75000,150000';

export const variables: Variable[] = [
  {
    name: 'DATABASE_URL',
    fallback: 'unset: an embedded PostgreSQL in `DATA_DIR`',
    meaning:
      'PostgreSQL 15 or later, as `postgres://user:password@host:port/name`, in UTF8, whose role may create tables and schemas and have 22 connections for each worker of each node, and 4 more where `WORKERS` is above 1',
  },
  { name: 'DATA_DIR', fallback: '`./data`', meaning: 'embedded database, generated secrets, journal of deliveries' },
  { name: 'HTTP_HOST', fallback: '`127.0.0.1`', meaning: 'address that the REST API listens on' },
  { name: 'HTTP_PORT', fallback: '`3000`', meaning: 'its port; `0` takes any free one' },
  { name: 'BASE_URL', fallback: '`http://localhost:` and `HTTP_PORT`', meaning: 'the service as clients see it' },
  {
    name: 'TRUSTED_PROXIES',
    fallback: '`0`',
    meaning:
      'how many reverse proxies of yours stand in front and add to `X-Forwarded-For`, 0 to 9: the client that failed logins are counted for',
  },
  {
    name: 'DELIVERY_MODE',
    fallback: '`sandbox`',
    meaning:
      '`sandbox`: every message goes through the real MTA to a built-in DNS and mailbox on loopback, and no mail leaves the machine; `direct`: real MX delivery',
  },
  {
    name: 'MAIL_HOSTNAME',
    fallback: 'required in `direct`; `mail.sendwright.test` in `sandbox`',
    meaning: 'EHLO name, return-path host, SPF include',
  },
  {
    name: 'SENDING_IPS',
    fallback: "the default route's",
    meaning:
      'source addresses of this machine, comma separated; `marketing=203.0.113.6` is one of the pool `marketing`, without a name it is `default`',
  },
  {
    name: 'WARM_UP',
    fallback: 'unset: none is new',
    meaning:
      'which of `SENDING_IPS` are new, with the day (UTC) of their first mail, comma separated: `203.0.113.6=2026-11-20`',
  },
  {
    name: 'WARM_UP_PLAN',
    fallback: `\`${usualPlan}\``,
    meaning: 'messages that each of those may send on its first, second, … day; after the last there is no cap',
  },
  {
    name: 'DNS_SERVERS',
    fallback: "the system's",
    meaning: 'resolvers as `ip` or `ip:port`, comma separated, used for every lookup',
  },
  {
    name: 'DANE_RESOLVER',
    fallback: 'unset: DANE is not looked at',
    meaning:
      'a resolver that validates DNSSEC and sets the AD bit, as `ip` or `ip:port`: for TLSA records, in `direct`; its word is taken, so it must be on this machine or in a network that nobody else can write to',
  },
  { name: 'MX_PORT', fallback: '`25`', meaning: 'port of the MX hosts' },
  {
    name: 'ALLOW_PRIVATE_NETWORKS',
    fallback: '`false`',
    meaning:
      'which private, loopback and reserved addresses webhooks and MX delivery may reach: none, all (`true`), or those in a comma separated list of networks such as `10.1.0.0/16,fd00::/8`',
  },
  {
    name: 'ALLOW_UNSAFE_DATABASE',
    fallback: '`false`',
    meaning:
      'starts although the database has `fsync`, `full_page_writes` or `synchronous_commit` off; accepted mail can then be lost',
  },
  { name: 'INBOUND_SMTP_PORT', fallback: '`2525`', meaning: 'bounces and complaints; `0` switches it off' },
  { name: 'SUBMISSION_PORT', fallback: '`2587`', meaning: 'submission with STARTTLS; `0` switches it off' },
  { name: 'SUBMISSIONS_PORT', fallback: '`2465`', meaning: 'submission with TLS from the start; `0` switches it off' },
  {
    name: 'SMTP_HOST',
    fallback: '`HTTP_HOST` in `sandbox`; every address in `direct`',
    meaning: 'address that these three ports are opened on',
  },
  {
    name: 'SMTP_TLS_CERT',
    fallback: 'unset: a self-signed one in `DATA_DIR`',
    meaning: "PEM file with the SMTP servers' certificate and those above it; read at the start",
  },
  { name: 'SMTP_TLS_KEY', fallback: 'required when `SMTP_TLS_CERT` is set', meaning: 'PEM file with its private key' },
  { name: 'ADMIN_EMAIL', fallback: '`admin@localhost`', meaning: 'first start only' },
  {
    name: 'ADMIN_PASSWORD',
    fallback: 'generated and printed once',
    meaning: 'first start only; 8 to 200 characters, and none of the usual ones',
  },
  {
    name: 'JWT_SECRET',
    fallback: 'generated into `DATA_DIR`; required when `DATABASE_URL` is set',
    meaning: 'signs login tokens; at least 32 characters that nobody guesses, as `openssl rand -hex 32` makes them',
  },
  {
    name: 'ENCRYPTION_KEY',
    fallback: 'generated into `DATA_DIR`; required when `DATABASE_URL` is set',
    meaning:
      'encrypts DKIM private keys and webhook secrets at rest; 32 bytes as 64 hexadecimal digits or as base64; another one than the database is used with stops the start',
  },
  {
    name: 'ENCRYPTION_KEY_NEXT',
    fallback: 'unset',
    meaning:
      'the key that is to take its place, in the same form: known to every node before `sendwright keys rotate-encryption` seals everything with it (see SECURITY.md)',
  },
  { name: 'ROLES', fallback: '`api,mta,webhooks,smtp`', meaning: 'what this node does, comma separated' },
  {
    name: 'WORKERS',
    fallback: '`1`',
    meaning:
      'processes of this node, 1 to 64, as many as it has processors to give: each does all of its roles, and they share the ports; 1 in `sandbox`',
  },
  {
    name: 'RETRY_SCHEDULE',
    fallback: `\`1m,5m,15m,30m,1h,2h,4h,6h\`; \`${quickSchedule}\` in \`sandbox\``,
    meaning: 'delays between delivery attempts (`s`, `m`, `h`, `d`); the last one repeats',
  },
  { name: 'RETRY_FOR', fallback: '`72h`', meaning: 'after this time a recipient that is still deferred has failed' },
  {
    name: 'TLS_REPORTS',
    fallback: '`on`; there are none in `sandbox`',
    meaning:
      'whether domains that ask for it (TLS-RPT, RFC 8460) are told once a day how TLS went with their servers: `on` or `off`',
  },
  {
    name: 'TLS_REPORTS_CONTACT',
    fallback: '`postmaster@` and `MAIL_HOSTNAME`',
    meaning: 'whom they can ask about it; reports by mail come from there, signed for its domain',
  },
  {
    name: 'DEFAULT_PLAN',
    fallback: '`free`',
    meaning: 'plan of accounts that are created without one: `free`, `pro` or `unlimited`',
  },
  {
    name: 'PROVIDERS_FILE',
    fallback: 'unset',
    meaning: 'JSON file with limits per provider, before those that are built in (see Politeness)',
  },
  {
    name: 'RATE_LIMIT',
    fallback: '`50/100`',
    meaning: 'requests that each API key may make on one node: a second, and at once',
  },
  { name: 'LOG_LEVEL', fallback: '`info`', meaning: '`trace`, `debug`, `info`, `warn`, `error` or `silent`' },
];

/**
 * Reads the environment once into a frozen object. An empty variable counts as unset.
 *
 * @throws ConfigError naming the first variable that is wrong and what it must be
 */
export function readConfig(env: Record<string, string | undefined>): Readonly<Config> {
  const read = <T>(name: string, parse: (text: string) => T, fallback: T): T => {
    const text = env[name]?.trim();
    if (!text) return fallback;
    try {
      return parse(text);
    } catch (error) {
      throw new ConfigError(`${name} must be ${(error as Error).message}, not ${shown(name, text)}`);
    }
  };
  const readEntries = <T>(name: string, parse: (text: string) => T, fallback: T): T => {
    const text = env[name]?.trim();
    return text ? naming(name, () => parse(text)) : fallback;
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
    dataDir: read('DATA_DIR', String, './data'),
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
    providersFile: read('PROVIDERS_FILE', String, null),
    dnsServers: read('DNS_SERVERS', listOf(dnsServer), null),
    daneResolver: read('DANE_RESOLVER', dnsServer, null),
    mxPort: read('MX_PORT', portFrom(1), 25),
    allowPrivateNetworks: read('ALLOW_PRIVATE_NETWORKS', privateNetworks, false),
    allowUnsafeDatabase: read('ALLOW_UNSAFE_DATABASE', trueOrFalse, false),
    smtp: {
      host: read('SMTP_HOST', hostToListenOn, sandbox ? host : null),
      tls: certificateFiles(read('SMTP_TLS_CERT', String, null), read('SMTP_TLS_KEY', String, null)),
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
    throw missing('ENCRYPTION_KEY', 'the key that is used now, when ENCRYPTION_KEY_NEXT is set');
  if (config.encryptionKey && config.nextEncryptionKey?.equals(config.encryptionKey))
    throw new ConfigError('ENCRYPTION_KEY_NEXT must be another key than ENCRYPTION_KEY, not the same');
  if (sandbox && config.workers > 1) {
    throw new ConfigError(
      `WORKERS must be 1 when DELIVERY_MODE is sandbox, whose DNS and mailbox are in one process, not ${config.workers}`,
    );
  }
  refusePortTwice(config.ports);
  return Object.freeze(config);
}

const portNames = { inbound: 'INBOUND_SMTP_PORT', submission: 'SUBMISSION_PORT', submissions: 'SUBMISSIONS_PORT' };

function refusePortTwice(ports: Config['ports']): void {
  const taken = new Map<number, string>();
  for (const [key, name] of Object.entries(portNames)) {
    const port = ports[key as keyof Config['ports']];
    const other = taken.get(port);
    if (other && port !== 0) throw new ConfigError(`${name} must be another port than ${other}, not ${port}`);
    taken.set(port, name);
  }
}

function certificateFiles(cert: string | null, key: string | null): { cert: string; key: string } | null {
  if (cert && key) return { cert, key };
  if (cert) throw missing('SMTP_TLS_KEY', 'a PEM file with the key of SMTP_TLS_CERT');
  if (key) throw missing('SMTP_TLS_CERT', 'a PEM file with the certificate of SMTP_TLS_KEY');
  return null;
}

/** For errors that name an entry of the variable themselves. */
function naming<T>(name: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ConfigError(`${name}: ${(error as Error).message}`);
  }
}

const missing = (name: string, must: string) => new ConfigError(`${name} is missing: it must be ${must}`);

const secretNames = new Set(['DATABASE_URL', 'ADMIN_PASSWORD', 'JWT_SECRET', 'ENCRYPTION_KEY', 'ENCRYPTION_KEY_NEXT']);

function shown(name: string, text: string): string {
  return secretNames.has(name) ? 'what was given' : JSON.stringify(text.slice(0, 100));
}
