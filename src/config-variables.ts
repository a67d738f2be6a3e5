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
      'PostgreSQL 15 or later, as `postgres://user:password@host:port/name` (with `?host=/run/postgresql` behind it over a socket in that folder), in UTF8, whose role may create tables and schemas and have 22 connections for each worker of each node, and 4 more where `WORKERS` is above 1',
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
      'source addresses of this machine, comma separated; `marketing=203.0.113.6` is one of the pool `marketing`, without a name it is `default`. Not used in `sandbox`',
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
  {
    name: 'START_ON_HOLD',
    fallback: '`false`',
    meaning:
      'begins no delivery and no webhook call until `sendwright release --waiting send` or `--waiting fail`: for the start on a database that was restored from a backup, each start anew (see docs/backup.md)',
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
      'processes of this node, 1 to 64, as many as it has processors to give: each does all of its roles, and they share the ports; 1 in `sandbox`. With two processors, 2 bring a tenth to a fifth more for mail of 50 KB and nothing for mail of 2 KB',
  },
  {
    name: 'RETRY_SCHEDULE',
    fallback: `\`1m,5m,15m,30m,1h,2h,4h,6h\`; \`${quickSchedule}\` in \`sandbox\``,
    meaning:
      'delays between delivery attempts (`s`, `m`, `h`, `d`); the last one repeats. Within `RETRY_FOR` that may come to 30,000 attempts at the most',
  },
  {
    name: 'RETRY_FOR',
    fallback: '`72h`',
    meaning: 'how long a recipient that is deferred is tried: the last attempt is at its end, and then it has failed',
  },
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
    meaning: 'JSON file with limits per provider, before those that are built in (see docs/delivery.md)',
  },
  {
    name: 'RATE_LIMIT',
    fallback: '`50/100`',
    meaning: 'requests that each API key may make on one node: a second, and at once',
  },
  {
    name: 'DNS_BLOCKLISTS',
    fallback: `\`${usualBlocklists}\``,
    meaning: 'DNS blocklists that `sendwright doctor` looks the sending addresses up in, comma separated, or `none`',
  },
  {
    name: 'METRICS_PORT',
    fallback: 'unset: there is none',
    meaning:
      'port of `GET /metrics` for Prometheus, which asks nobody who they are (see docs/operations.md); `0` switches it off',
  },
  {
    name: 'METRICS_HOST',
    fallback: '`127.0.0.1`',
    meaning: 'address that it listens on: one that strangers cannot reach',
  },
  { name: 'LOG_LEVEL', fallback: '`info`', meaning: '`trace`, `debug`, `info`, `warn`, `error` or `silent`' },
];
