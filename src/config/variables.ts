/** One variable as the documentation lists it: docs/config.md is made from these. */
export interface Variable {
  name: string;
  fallback: string;
  meaning: string;
}

export const quickSchedule = '5s,15s,1m,5m';
export const usualBlocklists = 'zen.spamhaus.org,bl.spamcop.net,psbl.surriel.com';
export const usualPlan = '50,100,250,500,1000,2500,5000,10000,20000,40000,75000,150000';

export const variables: Variable[] = [
  {
    name: 'DATABASE_URL',
    fallback: 'unset: an embedded PostgreSQL in `DATA_DIR`',
    meaning:
      'PostgreSQL 15 or later, as `postgres://user:password@host:port/name` (append `?host=/run/postgresql` for a socket in that folder, `?sslmode=verify-full` for TLS, and `&sslrootcert=` with the PEM file of its authority if Node does not know that). The encoding must be UTF8; the role must be allowed to create tables and schemas, and to open 22 connections for each worker of each node, plus 4 if `WORKERS` is above 1',
  },
  { name: 'DATA_DIR', fallback: '`./data`', meaning: 'embedded database, generated secrets, journal of deliveries' },
  { name: 'HTTP_HOST', fallback: '`127.0.0.1`', meaning: 'address that the REST API listens on' },
  { name: 'HTTP_PORT', fallback: '`3000`', meaning: 'its port; `0` takes any free one' },
  {
    name: 'BASE_URL',
    fallback: '`http://localhost:` and `HTTP_PORT`',
    meaning: 'the service as clients see it; without a path',
  },
  {
    name: 'TRUSTED_PROXIES',
    fallback: '`0`',
    meaning:
      'number of your reverse proxies that add to `X-Forwarded-For`, 0 to 9; it determines the client address that failed logins are counted for',
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
      'source addresses of this machine, comma separated; `marketing=203.0.113.6` belongs to the pool `marketing`, an address without a name to `default`. Not used in `sandbox`',
  },
  {
    name: 'EHLO_NAMES',
    fallback: 'unset: `MAIL_HOSTNAME` for all',
    meaning:
      'the EHLO name of those of `SENDING_IPS` whose PTR record is not `MAIL_HOSTNAME`, comma separated: `203.0.113.6=mail2.example.com`',
  },
  {
    name: 'WARM_UP',
    fallback: 'unset: none are new',
    meaning:
      'which of `SENDING_IPS` are new, with the day (UTC) of their first mail, comma separated: `203.0.113.6=2026-11-20`',
  },
  {
    name: 'WARM_UP_PLAN',
    fallback: `\`${usualPlan}\``,
    meaning:
      'number of messages that each new address may send on its first, second, … day; after the last day there is no cap',
  },
  {
    name: 'DNS_SERVERS',
    fallback: "the system's",
    meaning:
      'resolvers as `ip` or `ip:port`, comma separated, used for every lookup; in `sandbox` for those of webhooks alone, as mail has its own DNS there',
  },
  {
    name: 'DANE_RESOLVER',
    fallback: 'unset: DANE is not used',
    meaning:
      'resolver for TLSA records in `direct`, as `ip` or `ip:port`. It must validate DNSSEC and set the AD bit; Sendwright trusts that bit, so the resolver must be on this machine or in a network that nobody else can write to',
  },
  { name: 'MX_PORT', fallback: '`25`', meaning: 'port of the MX hosts. Not used in `sandbox`' },
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
      '`true` starts even if the database has `fsync`, `full_page_writes` or `synchronous_commit` off; accepted mail can then be lost',
  },
  {
    name: 'START_ON_HOLD',
    fallback: '`false`',
    meaning:
      '`true` starts on hold, with no deliveries and no webhook calls until `sendwright release --waiting send` or `--waiting fail`, at every start: use it to start on a database that was restored from a backup (see docs/backup.md)',
  },
  { name: 'INBOUND_SMTP_PORT', fallback: '`2525`', meaning: 'bounces and complaints; `0` switches it off' },
  { name: 'SUBMISSION_PORT', fallback: '`2587`', meaning: 'submission with STARTTLS; `0` switches it off' },
  { name: 'SUBMISSIONS_PORT', fallback: '`2465`', meaning: 'submission with TLS from the start; `0` switches it off' },
  {
    name: 'SMTP_HOST',
    fallback: '`HTTP_HOST` in `sandbox`; every address in `direct`',
    meaning: 'address that these three ports listen on',
  },
  {
    name: 'SMTP_PROXIES',
    fallback: 'unset: none',
    meaning:
      'addresses of the TCP balancers in front of these three ports, comma separated: their connections begin with the PROXY protocol, version 1 (see docs/going-live.md)',
  },
  {
    name: 'SMTP_TLS_CERT',
    fallback: 'unset: a self-signed one in `DATA_DIR`',
    meaning: "PEM file with the SMTP servers' certificate chain; read again when it is replaced",
  },
  { name: 'SMTP_TLS_KEY', fallback: 'required when `SMTP_TLS_CERT` is set', meaning: 'PEM file with its private key' },
  { name: 'ADMIN_EMAIL', fallback: '`admin@localhost`', meaning: 'first start only' },
  {
    name: 'ADMIN_PASSWORD',
    fallback: 'generated and printed once',
    meaning: 'first start only; 8 to 200 characters, and not a common password',
  },
  {
    name: 'JWT_SECRET',
    fallback: 'generated into `DATA_DIR`; required when `DATABASE_URL` is set',
    meaning: 'signs login tokens; at least 32 random characters, such as from `openssl rand -hex 32`',
  },
  {
    name: 'ENCRYPTION_KEY',
    fallback: 'generated into `DATA_DIR`; required when `DATABASE_URL` is set',
    meaning:
      'encrypts DKIM private keys and webhook secrets at rest; 32 bytes as 64 hexadecimal digits or as base64; a key that the database is not used with stops the start',
  },
  {
    name: 'ENCRYPTION_KEY_NEXT',
    fallback: 'unset',
    meaning:
      'the key that will replace `ENCRYPTION_KEY`, in the same form. Every node must know it before `sendwright keys rotate-encryption` re-encrypts everything with it (see SECURITY.md)',
  },
  { name: 'ROLES', fallback: '`api,mta,webhooks,smtp`', meaning: 'what this node does, comma separated' },
  {
    name: 'WORKERS',
    fallback: '`1`',
    meaning:
      'number of processes of this node, 1 to 64: use as many as there are processors to spare. Each performs all roles of the node, and they share the ports; must be 1 in `sandbox`. On two processors, 2 workers bring 10 to 20 % more throughput for mail of 50 KB, and none for mail of 2 KB',
  },
  {
    name: 'STOP_DELAY',
    fallback: '`0s`',
    meaning:
      'how long the ports stay open after SIGTERM, 0s to 10s, while `/readyz` fails: a balancer with health checks sends its work elsewhere meanwhile. It is part of the 30 s of a stop; Ctrl-C and a second signal leave it out',
  },
  {
    name: 'RETRY_SCHEDULE',
    fallback: `\`1m,5m,15m,30m,1h,2h,4h,6h\`; \`${quickSchedule}\` in \`sandbox\``,
    meaning:
      'delays between delivery attempts (`s`, `m`, `h`, `d`); the last one repeats. At most 30,000 attempts may fall within `RETRY_FOR`',
  },
  {
    name: 'RETRY_FOR',
    fallback: '`72h`',
    meaning:
      'how long a deferred recipient is retried: the last attempt is at the end of this time, and then the recipient fails',
  },
  {
    name: 'TLS_REPORTS',
    fallback: '`on`; no reports in `sandbox`',
    meaning:
      '`on` or `off`: sends a daily report on TLS with their servers to domains that ask for it (TLS-RPT, RFC 8460)',
  },
  {
    name: 'TLS_REPORTS_CONTACT',
    fallback: '`postmaster@` and `MAIL_HOSTNAME`',
    meaning: 'contact address in these reports; reports by mail are sent from it, signed for its domain',
  },
  {
    name: 'DEFAULT_PLAN',
    fallback: '`free`',
    meaning: 'plan for new accounts that name none: `free`, `pro` or `unlimited`',
  },
  {
    name: 'PROVIDERS_FILE',
    fallback: 'unset',
    meaning: 'JSON file with limits per provider, which take precedence over the built-in ones (see docs/delivery.md)',
  },
  {
    name: 'RATE_LIMIT',
    fallback: '`50/100`',
    meaning: 'requests that each API key may make on one node: per second, and as a burst',
  },
  {
    name: 'DNS_BLOCKLISTS',
    fallback: `\`${usualBlocklists}\``,
    meaning: 'DNS blocklists that `sendwright doctor` looks the sending addresses up in, comma separated, or `none`',
  },
  {
    name: 'METRICS_PORT',
    fallback: 'unset: no port',
    meaning:
      'port of `GET /metrics` for Prometheus, without authentication (see docs/operations.md); `0` switches it off',
  },
  {
    name: 'METRICS_HOST',
    fallback: '`127.0.0.1`',
    meaning: 'address that the metrics port listens on: choose one that strangers cannot reach',
  },
  { name: 'LOG_LEVEL', fallback: '`info`', meaning: '`trace`, `debug`, `info`, `warn`, `error` or `silent`' },
];
