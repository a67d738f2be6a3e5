import { readFileSync } from 'node:fs';
import t from 'tap';
import { configPage, configRows } from '../scripts/config-page.ts';
import { ConfigError } from '../src/config/environment.ts';
import { variables } from '../src/config/variables.ts';
import { hasSmtpPort, readConfig } from '../src/config.ts';
import { isReachable } from '../src/ip.ts';
import { testKey } from './support/keys.ts';

const key = testKey(1).toString('hex');
const secret = testKey(2).toString('base64url');
const external = { DATABASE_URL: 'postgres://u:p@localhost/db', JWT_SECRET: secret, ENCRYPTION_KEY: key };

t.test('without any variable it is a sandbox on loopback', async (t) => {
  const config = readConfig({});
  t.match(config, {
    databaseUrl: null,
    dataDir: './data',
    http: { host: '127.0.0.1', port: 3000 },
    baseUrl: 'http://localhost:3000',
    deliveryMode: 'sandbox',
    mxPort: 25,
    allowPrivateNetworks: false,
    smtp: { host: '127.0.0.1', tls: null },
    ports: { inbound: 2525, submission: 2587, submissions: 2465 },
    admin: { email: 'admin@localhost', password: null },
    retryForMs: 72 * 3_600_000,
    stopDelayMs: 0,
    logLevel: 'info',
  });
  t.ok(Object.isFrozen(config));
  t.same(readConfig({ HTTP_PORT: '', LOG_LEVEL: ' ' }), config, 'an empty variable counts as unset');
});

t.test('variables that are set are used', async (t) => {
  const config = readConfig({
    ...external,
    HTTP_PORT: '8080',
    BASE_URL: 'https://send.example.com/',
    DELIVERY_MODE: 'direct',
    MAIL_HOSTNAME: 'Mail.Example.COM',
    SENDING_IPS: '192.0.2.1, marketing = 2001:DB8:0::1',
    EHLO_NAMES: '2001:DB8:0::1 = Mail2.Example.com',
    WARM_UP: '2001:db8::1=2026-11-20',
    WARM_UP_PLAN: '5, 10',
    DNS_SERVERS: '127.0.0.1:5353,[::1]:53,9.9.9.9',
    SMTP_TLS_CERT: 'cert.pem',
    SMTP_TLS_KEY: 'key.pem',
    SMTP_PROXIES: '10.0.0.9, 2001:DB8:0::9, ::ffff:10.0.0.8',
    ROLES: 'api,mta',
    RETRY_SCHEDULE: '30s,1h',
    STOP_DELAY: '10s',
    ALLOW_PRIVATE_NETWORKS: 'true',
  });
  t.match(config, {
    baseUrl: 'https://send.example.com',
    mailHostname: 'mail.example.com',
    ehloNames: new Map([['2001:db8::1', 'mail2.example.com']]),
    sendingIps: ['192.0.2.1', '2001:db8::1'],
    sendingPools: {
      addresses: [
        { ip: '192.0.2.1', pool: 'default', firstDay: null },
        { ip: '2001:db8::1', pool: 'marketing', firstDay: '2026-11-20' },
      ],
      plan: [5, 10],
    },
    dnsServers: ['127.0.0.1:5353', '[::1]:53', '9.9.9.9'],
    retryScheduleMs: [30_000, 3_600_000],
    stopDelayMs: 10_000,
    allowPrivateNetworks: true,
    smtp: {
      host: null,
      tls: { cert: 'cert.pem', key: 'key.pem' },
      proxies: ['10.0.0.9', '2001:db8::9', '10.0.0.8'],
    },
  });
  t.equal(readConfig({ HTTP_HOST: '0.0.0.0' }).smtp.host, '0.0.0.0', 'the sandbox is where the REST API is');
  t.same([...config.roles], ['api', 'mta']);
  t.equal(config.encryptionKey?.length, 32);
  t.same(readConfig({ ...external, ENCRYPTION_KEY: testKey(3).toString('base64') }).encryptionKey, testKey(3));
  const most = { RETRY_SCHEDULE: '1m', RETRY_FOR: '30000m' };
  t.match(
    readConfig(most),
    { retryScheduleMs: [60_000], retryForMs: 30_000 * 60_000 },
    'as many attempts as can be counted',
  );
  t.equal(readConfig({ HTTP_PORT: '8080' }).baseUrl, 'http://localhost:8080');
  const databaseUrl = (options: string) =>
    readConfig({ ...external, DATABASE_URL: `postgres://u:p@h/db?${options}` }).databaseUrl?.split('?')[1];
  t.equal(databaseUrl('a=b&sslmode=require&c=d'), 'a=b&sslmode=verify-full&c=d', 'as the driver takes it');
  for (const options of ['sslmode=no-verify', 'sslmode=required', 'a=b/c@d', 'uselibpqcompat=true&sslmode=require'])
    t.equal(databaseUrl(options), options);
});

t.test('TLS reports are sent in direct mode, and never from the sandbox', async (t) => {
  const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.com' };
  t.same(readConfig(direct).tlsReports, { contact: 'postmaster@mail.example.com' });
  const contact = { TLS_REPORTS_CONTACT: 'tls@example.com' };
  t.same(readConfig({ ...direct, ...contact }).tlsReports, { contact: 'tls@example.com' });
  t.equal(readConfig({ ...direct, TLS_REPORTS: 'off' }).tlsReports, null);
  t.equal(readConfig({ TLS_REPORTS: 'on', ...contact }).tlsReports, null);
});

t.test('a wrong value is one line that names the variable and what it must be', async (t) => {
  const wrong: [Record<string, string>, RegExp][] = [
    [{ HTTP_PORT: 'abc' }, /^HTTP_PORT must be a port number from 0 to 65535, not "abc"$/],
    [{ HTTP_PORT: '65536' }, /^HTTP_PORT must be a port number/],
    [{ HTTP_PORT: '-1' }, /^HTTP_PORT must be a port number/],
    [{ HTTP_HOST: 'example.com' }, /^HTTP_HOST must be an IP address or localhost/],
    [
      { SMTP_PROXIES: '10.0.0.0/8' },
      /^SMTP_PROXIES must be a comma separated list, each an IP address, not "10\.0\.0\.0\/8"$/,
    ],
    [{ SMTP_PROXIES: '10.0.0.9,fe80::1%eth0' }, /^SMTP_PROXIES must be/],
    [{ MX_PORT: '0' }, /^MX_PORT must be a port number from 1 to 65535/],
    [{ MX_PORT: 'x' }, /^MX_PORT must be a port number from 1 to 65535, not "x"$/],
    [{ BASE_URL: 'localhost:3000' }, /^BASE_URL must be an http or https address/],
    [{ BASE_URL: 'https://a?b' }, /^BASE_URL must be/],
    [{ BASE_URL: 'https://a/?' }, /^BASE_URL must be an http or https address [^']*, not "https:\/\/a\/\?"$/],
    [{ BASE_URL: 'https://a#' }, /^BASE_URL must be/],
    [{ BASE_URL: 'https://a/mail/' }, /^BASE_URL must be [^']* without a path: [^']*, not "https:\/\/a\/mail\/"$/],
    [{ BASE_URL: 'https://u:secret@a' }, /^BASE_URL must be [^']* \(the value is not shown\)$/],
    [{ BASE_URL: 'https://:secret@a' }, /^BASE_URL must be [^']* \(the value is not shown\)$/],
    [{ DELIVERY_MODE: 'live' }, /^DELIVERY_MODE must be one of sandbox, direct, not "live"$/],
    [{ DELIVERY_MODE: 'direct' }, /^MAIL_HOSTNAME is missing: it must be the public name of this host/],
    [{ MAIL_HOSTNAME: 'localhost' }, /^MAIL_HOSTNAME must be a host name/],
    [{ MAIL_HOSTNAME: 'a.b\r\nRCPT TO:<x>' }, /^MAIL_HOSTNAME must be a host name/],
    [{ SENDING_IPS: '1.2.3.4,x' }, /^SENDING_IPS: "x" must be an IP address, or a pool and an address: marketing=203/],
    [{ SENDING_IPS: '1.2.3.4,' }, /^SENDING_IPS: "" must be an IP address/],
    [
      { SENDING_IPS: '1.2.3.4,Bulk=1.2.3.5' },
      /^SENDING_IPS: "Bulk=1\.2\.3\.5": a pool name has 1 to 32 characters: a-z/,
    ],
    [{ SENDING_IPS: '=1.2.3.5' }, /^SENDING_IPS: "=1\.2\.3\.5": a pool name/],
    [{ SENDING_IPS: 'a=1.2.3.4=5' }, /^SENDING_IPS: "a=1\.2\.3\.4=5" must be an IP address/],
    [{ SENDING_IPS: '::1.2.3.4' }, /^SENDING_IPS: "::1\.2\.3\.4" must be an IP address/],
    [{ SENDING_IPS: 'fe80::1%eth0' }, /^SENDING_IPS: "fe80::1%eth0" must be an IP address/],
    [{ SENDING_IPS: 'a=0.0.0.0' }, /^SENDING_IPS: "a=0\.0\.0\.0": mail cannot be sent from 0\.0\.0\.0$/],
    [{ SENDING_IPS: '0::0' }, /^SENDING_IPS: "0::0": mail cannot be sent from ::$/],
    [{ SENDING_IPS: '255.255.255.255' }, /^SENDING_IPS: [^']*: mail cannot be sent/],
    [{ SENDING_IPS: '224.0.0.1' }, /^SENDING_IPS: [^']*: mail cannot be sent/],
    [{ SENDING_IPS: 'ff02::1' }, /^SENDING_IPS: [^']*: mail cannot be sent/],
    [{ SENDING_IPS: '1.2.3.4,::ffff:102:304' }, /^SENDING_IPS: "::ffff:102:304": 1\.2\.3\.4 is listed twice/],
    [{ SENDING_IPS: 'a=1.2.3.4,b=1.2.3.4' }, /^SENDING_IPS: "b=1\.2\.3\.4": 1\.2\.3\.4 is listed twice/],
    [{ SENDING_IPS: '2001:db8::1,2001:DB8:0::1' }, /^SENDING_IPS: "2001:DB8:0::1": 2001:db8::1 is listed twice/],
    [
      { SENDING_IPS: '1.2.3.4', EHLO_NAMES: 'mail2.example.com' },
      /^EHLO_NAMES: "mail2\.example\.com" must be an address and the name of its PTR record: 203/,
    ],
    [
      { SENDING_IPS: '1.2.3.4', EHLO_NAMES: '1.2.3.4=a.test=b' },
      /^EHLO_NAMES: "1\.2\.3\.4=a\.test=b" must be an address and/,
    ],
    [{ SENDING_IPS: '1.2.3.4', EHLO_NAMES: '1.2.3.4=' }, /^EHLO_NAMES: "1\.2\.3\.4=" must be an address and/],
    [
      { SENDING_IPS: '1.2.3.4', EHLO_NAMES: '1.2.3.4=a b' },
      /^EHLO_NAMES: "1\.2\.3\.4=a b": "a b" must be a host name such as/,
    ],
    [
      { SENDING_IPS: '1.2.3.4', EHLO_NAMES: '1.2.3.4=a.test,1.2.3.4=b.test' },
      /^EHLO_NAMES: "1\.2\.3\.4=b\.test": 1\.2\.3\.4 is listed twice$/,
    ],
    [{ SENDING_IPS: '1.2.3.4', EHLO_NAMES: '1.2.3.5=a.test' }, /^EHLO_NAMES: 1\.2\.3\.5 is not one of SENDING_IPS$/],
    [{ SENDING_IPS: '1.2.3.4', WARM_UP: '1.2.3.4' }, /^WARM_UP: "1\.2\.3\.4" must be an address and the day/],
    [{ SENDING_IPS: '1.2.3.4', WARM_UP: '1.2.3.4=2026-11-20=2026-11-21' }, /^WARM_UP: "1\.2\.3\.4=2026-11-20=2026-/],
    [{ SENDING_IPS: '1.2.3.4', WARM_UP: '1.2.3.4=2026-02-30' }, /^WARM_UP: "1\.2\.3\.4=2026-02-30" must be an address/],
    [{ SENDING_IPS: '1.2.3.4', WARM_UP: '1.2.3.5=2026-11-20' }, /^WARM_UP: 1\.2\.3\.5 is not one of SENDING_IPS$/],
    [
      { SENDING_IPS: '1.2.3.4', WARM_UP: '1.2.3.4=2026-11-20,1.2.3.4=2026-11-21' },
      /^WARM_UP: "1\.2\.3\.4=2026-11-21": 1\.2\.3\.4 is listed twice$/,
    ],
    [{ WARM_UP_PLAN: '50,0' }, /^WARM_UP_PLAN: "0" must be the number of messages/],
    [{ WARM_UP_PLAN: '50,many' }, /^WARM_UP_PLAN: "many" must be the number of messages/],
    [{ WARM_UP_PLAN: '1,'.repeat(400) }, /^WARM_UP_PLAN: 401 days are listed/],
    [{ DNS_SERVERS: '1.2.3.4:99999' }, /^DNS_SERVERS must be a comma separated list, each a resolver/],
    [{ DNS_SERVERS: '1.2.3.4:65536' }, /^DNS_SERVERS must be/],
    [{ DNS_SERVERS: '1.2.3.4:0' }, /^DNS_SERVERS must be/],
    [{ DNS_SERVERS: 'fe80::1%eth0' }, /^DNS_SERVERS must be/],
    [{ DNS_SERVERS: 'dns.example' }, /^DNS_SERVERS must be/],
    [{ DANE_RESOLVER: '127.0.0.1,::1' }, /^DANE_RESOLVER must be a resolver as ip, ip:port/],
    [
      { ALLOW_PRIVATE_NETWORKS: 'yes' },
      /^ALLOW_PRIVATE_NETWORKS must be true, false or networks such as [^']*: "yes" is not a network$/,
    ],
    [{ START_ON_HOLD: '1' }, /^START_ON_HOLD must be true or false/],
    [{ ALLOW_UNSAFE_DATABASE: '1' }, /^ALLOW_UNSAFE_DATABASE must be true or false/],
    [{ INBOUND_SMTP_PORT: 'x' }, /^INBOUND_SMTP_PORT must be a port number/],
    [{ SUBMISSION_PORT: '2525' }, /^SUBMISSION_PORT must be a different port from INBOUND_SMTP_PORT, not 2525$/],
    [{ HTTP_PORT: '2525' }, /^HTTP_PORT must be a different port from INBOUND_SMTP_PORT, not 2525$/],
    [{ HTTP_PORT: '2525', SMTP_HOST: '0.0.0.0' }, /^HTTP_PORT must be a different port from INBOUND_SMTP_PORT/],
    [{ HTTP_PORT: '2525', SMTP_HOST: '::' }, /^HTTP_PORT must be a different port from INBOUND_SMTP_PORT/],
    [
      { HTTP_PORT: '2587', DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'a.test' },
      /^HTTP_PORT must be a different port from SUBMISSION_PORT/,
    ],
    [{ METRICS_PORT: '3000' }, /^METRICS_PORT must be a different port from HTTP_PORT, not 3000$/],
    [{ METRICS_PORT: '3000', METRICS_HOST: '0.0.0.0' }, /^METRICS_PORT must be a different port from HTTP_PORT/],
    [{ SUBMISSION_PORT: 'x' }, /^SUBMISSION_PORT must be a port number/],
    [{ SUBMISSIONS_PORT: 'x' }, /^SUBMISSIONS_PORT must be a port number/],
    [{ SMTP_HOST: 'mail.example.com' }, /^SMTP_HOST must be an IP address or localhost/],
    [{ SMTP_TLS_CERT: 'cert.pem' }, /^SMTP_TLS_KEY is missing: it must be a PEM file with the key of SMTP_TLS_CERT$/],
    [{ SMTP_TLS_KEY: 'key.pem' }, /^SMTP_TLS_CERT is missing/],
    [
      { SMTP_TLS_CERT: 'cert.pem', SMTP_TLS_KEY: '-----BEGIN PRIVATE KEY-----\nsecret' },
      /^SMTP_TLS_KEY must be the path of a file or folder \(the value is not shown\)$/,
    ],
    [
      { SMTP_TLS_KEY: '-----BEGIN PRIVATE KEY----- secret' },
      /^SMTP_TLS_KEY must be the path of a file or folder \(the value is not shown\)$/,
    ],
    [{ DATA_DIR: 'a\0b' }, /^DATA_DIR must be the path of a file or folder, not "a\\u0000b"$/],
    [{ DATA_DIR: '~/data' }, /^DATA_DIR must be a path without ~, which only a shell replaces, not "~\/data"$/],
    [{ PROVIDERS_FILE: '{\n}' }, /^PROVIDERS_FILE must be the path of a file/],
    [{ ADMIN_EMAIL: 'admin' }, /^ADMIN_EMAIL must be an email address/],
    [{ ADMIN_PASSWORD: 'short' }, /^ADMIN_PASSWORD must be 8 to 200 characters \(the value is not shown\)$/],
    [{ ADMIN_PASSWORD: 'Admin@localhost' }, /^ADMIN_PASSWORD must not be ADMIN_EMAIL/],
    [
      { DATABASE_URL: 'mysql://secret@h/d' },
      /^DATABASE_URL must be a PostgreSQL address [^']* \(the value is not shown\)$/,
    ],
    [{ DATABASE_URL: 'postgres://u:p,q@a:1,b:2/db' }, /^DATABASE_URL must be an address with one host: for several/],
    [
      { DATABASE_URL: 'postgres://a,b/db?target_session_attrs=read-write' },
      /^DATABASE_URL must be an address with one/,
    ],
    ...['#x', '1#x', 'x/', '1/x', 'x?', '1?x'].map((password): [Record<string, string>, RegExp] => [
      { DATABASE_URL: `postgres://u:${password}@h/db` },
      /^DATABASE_URL must be an address in which #, \/ and \? of a password are written as [^']* \(the value is not shown\)$/,
    ]),
    [{ ...external, JWT_SECRET: '' }, /^JWT_SECRET is missing/],
    [{ ...external, ENCRYPTION_KEY: '' }, /^ENCRYPTION_KEY is missing/],
    [
      { JWT_SECRET: 'x'.repeat(64) },
      /^JWT_SECRET must be at least 32 random characters, such as from openssl [^,]* \(the value is not shown\)$/,
    ],
    [{ ENCRYPTION_KEY: 'too short' }, /^ENCRYPTION_KEY must be 32 bytes/],
    [{ ENCRYPTION_KEY: '!'.repeat(44) }, /^ENCRYPTION_KEY must be 32 bytes/],
    [
      { ENCRYPTION_KEY: key, ENCRYPTION_KEY_NEXT: 'x' },
      /^ENCRYPTION_KEY_NEXT must be 32 bytes [^']* \(the value is not shown\)$/,
    ],
    [
      { ENCRYPTION_KEY: key, ENCRYPTION_KEY_NEXT: key },
      /^ENCRYPTION_KEY_NEXT must be a different key from ENCRYPTION_KEY/,
    ],
    [{ ENCRYPTION_KEY_NEXT: key }, /^ENCRYPTION_KEY is missing: it must be the current key/],
    [{ ROLES: 'api,web' }, /^ROLES must be a comma separated list, each one of api, mta, webhooks, smtp/],
    [{ WORKERS: 'auto' }, /^WORKERS must be a number of processes, 1 to 64, not "auto"$/],
    [{ WORKERS: '0' }, /^WORKERS must be/],
    [{ WORKERS: '65' }, /^WORKERS must be/],
    [
      { WORKERS: '2' },
      /^WORKERS must be 1 when DELIVERY_MODE is sandbox, not 2: its DNS and mailbox run in one process$/,
    ],
    [{ RETRY_SCHEDULE: '1m,soon' }, /^RETRY_SCHEDULE must be a comma separated list, each a time such as/],
    [
      { RETRY_SCHEDULE: '1m', RETRY_FOR: '30d' },
      /^RETRY_SCHEDULE must lead to at most 30,000 attempts within RETRY_FOR, not 43,200: make its last delay longer, or RETRY_FOR shorter$/,
    ],
    [{ RETRY_SCHEDULE: '1h,1s' }, /^RETRY_SCHEDULE must lead to at most 30,000 attempts within RETRY_FOR, not 255,601/],
    [{ RETRY_FOR: '150d' }, /^RETRY_SCHEDULE must lead to at most 30,000 attempts within RETRY_FOR, not 43,203/],
    [{ RETRY_FOR: '0s' }, /^RETRY_FOR must be a time such as/],
    [{ STOP_DELAY: '11s' }, /^STOP_DELAY must be a time from 0s to 10s/],
    [{ STOP_DELAY: '5' }, /^STOP_DELAY must be a time from 0s to 10s/],
    [{ TLS_REPORTS: 'yes' }, /^TLS_REPORTS must be one of on, off, not "yes"$/],
    [{ TLS_REPORTS_CONTACT: 'postmaster' }, /^TLS_REPORTS_CONTACT must be an email address such as/],
    [{ TLS_REPORTS_CONTACT: 'Ann <a@example.com>' }, /^TLS_REPORTS_CONTACT must be an email address such as/],
    [{ DEFAULT_PLAN: 'gold' }, /^DEFAULT_PLAN must be one of free, pro, unlimited/],
    [{ TRUSTED_PROXIES: 'all' }, /^TRUSTED_PROXIES must be the number of proxies/],
    [{ RATE_LIMIT: '50' }, /^RATE_LIMIT must be requests per second and burst/],
    [{ RATE_LIMIT: '0/10' }, /^RATE_LIMIT must be/],
    [{ RATE_LIMIT: '10/0' }, /^RATE_LIMIT must be/],
    [{ DNS_BLOCKLISTS: 'bl.example.com,none at all' }, /^DNS_BLOCKLISTS must be a comma separated list, each a host/],
    [{ METRICS_PORT: 'x' }, /^METRICS_PORT must be a port number/],
    [{ METRICS_HOST: 'metrics.example.com' }, /^METRICS_HOST must be an IP address or localhost/],
    [{ LOG_LEVEL: 'loud' }, /^LOG_LEVEL must be one of/],
  ];
  for (const [env, message] of wrong) {
    const refusal = refusalOf(env);
    t.match(refusal, message, JSON.stringify(env));
    t.notMatch(refusal, /\n|secret/);
  }
  const tried = new Set(wrong.flatMap(([env]) => Object.keys(env)));
  for (const { name } of variables) t.ok(tried.has(name), `${name} is tested with a wrong value`);
});

t.test('the least and the most of a number, and nothing where there may be none', async (t) => {
  t.same(readConfig({ RATE_LIMIT: '1/1' }).rateLimit, { perSecond: 1, burst: 1 });
  t.same(readConfig({ DNS_SERVERS: '1.2.3.4:1,1.2.3.4:65535' }).dnsServers, ['1.2.3.4:1', '1.2.3.4:65535']);
  t.same(readConfig({ DNS_BLOCKLISTS: 'none' }).blocklists, []);
});

t.test('equal ports, conflicting or not', async (t) => {
  for (const env of [
    { HTTP_PORT: '2525', ROLES: 'mta,smtp' },
    { HTTP_PORT: '2525', ROLES: 'api,mta' },
    { METRICS_PORT: '3000', METRICS_HOST: '127.0.0.2' },
    { METRICS_PORT: '3000', METRICS_HOST: '::1', HTTP_HOST: '0.0.0.0' },
    { HTTP_PORT: '0', METRICS_PORT: '0', INBOUND_SMTP_PORT: '0', SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' },
  ])
    t.doesNotThrow(() => readConfig(env), JSON.stringify(env));
});

t.test('quotes that some tool left around a value are no part of it', async (t) => {
  for (const { name } of variables)
    for (const text of [`"secret"`, `'secret'`, ' "secret" ', `"secret\nsecret"`, '""'])
      t.match(
        refusalOf({ [name]: text }),
        `${name} must be set without quotes around the value: some tools, such as docker`,
      );
  t.equal(readConfig({ ADMIN_PASSWORD: `it's "quoted"` }).admin.password, `it's "quoted"`);
});

t.test('private networks are let in only by name, and none by default: SSRF-08', async (t) => {
  const read = (text: string) => readConfig({ ALLOW_PRIVATE_NETWORKS: text }).allowPrivateNetworks;
  t.strictSame(['', 'false', 'true'].map(read), [false, false, true]);
  const allowed = read('10.1.0.0/16, fd00::/8,127.0.0.1/32');
  const reached = ['10.1.255.255', '10.2.0.0', 'fd12::1', 'fc00::1', '127.0.0.1', '127.0.0.2', '169.254.169.254'];
  t.strictSame(
    reached.filter((ip) => isReachable(ip, allowed)),
    ['10.1.255.255', 'fd12::1', '127.0.0.1'],
  );
  for (const [text, wrong] of [
    ['TRUE', '"TRUE" is not a network'],
    ['10.1.0.0/16,', '"" is not a network'],
    ['10.1.0.0/16,true', '"true" is not a network'],
    ['10.1.2.3', '"10.1.2.3" is not a network'],
    ['10.1/16', '"10.1/16" is not a network'],
    ['010.1.0.0/16', '"010.1.0.0/16" is not a network'],
    ['10.1.0.0/016', '"10.1.0.0/016" is not a network'],
    ['10.1.0.0/-1', '"10.1.0.0/-1" is not a network'],
    ['10.1.0.0/255.255.0.0', '"10.1.0.0/255.255.0.0" is not a network'],
    ['fe80::%eth0/10', '"fe80::%eth0/10" is not a network'],
    ['localhost/8', '"localhost/8" is not a network'],
    ['10.1.0.0/33', '"10.1.0.0/33" has a length of more than 32'],
    ['fd00::/129', '"fd00::/129" has a length of more than 128'],
    ['10.1.2.3/16', '"10.1.2.3/16" is not a network but an address in 10.1.0.0/16'],
    ['fd00::1/8', '"fd00::1/8" is not a network but an address in fd00::/8'],
    ['0.0.0.0/0', '"0.0.0.0/0" is every address: use true for that'],
    ['::/0', '"::/0" is every address: use true for that'],
    ['::ffff:10.0.0.0/104', '"::ffff:10.0.0.0/104" must be written as IPv4'],
  ] as const) {
    const must = `true, false or networks such as 10.1.0.0/16,fd00::/8: ${wrong}`;
    t.equal(refusalOf({ ALLOW_PRIVATE_NETWORKS: text }), `ALLOW_PRIVATE_NETWORKS must be ${must}`);
  }
});

t.test('every variable that is read is listed', async (t) => {
  const asked = new Set<string>();
  readConfig(new Proxy({}, { get: (_, name) => void asked.add(String(name)) }));
  t.same([...asked].sort(), variables.map(({ name }) => name).sort());
});

t.test('the listed defaults are the real ones', async (t) => {
  const direct = { DELIVERY_MODE: 'direct', MAIL_HOSTNAME: 'mail.example.com' };
  // The whole text, or followed by another for the sandbox; the others depend on another variable.
  const literals = variables.flatMap(({ name, fallback }) => {
    const [, text] = /^`([^`]+)`(?:$|;)/.exec(fallback) ?? [];
    return text === undefined || fallback.startsWith('`HTTP_HOST`') ? [] : [{ name, text }];
  });
  t.ok(literals.length > 20, `${literals.length} defaults`);
  for (const { name, text } of literals) {
    const env = name === 'DELIVERY_MODE' ? {} : direct;
    t.strictSame(readConfig({ ...env, [name]: text }), readConfig(env), `${name} ${text}`);
  }
  for (const [name, text] of Object.entries({
    RETRY_SCHEDULE: '5s,15s,1m,5m',
    MAIL_HOSTNAME: 'mail.sendwright.test',
  })) {
    t.match(variables.find((one) => one.name === name)?.fallback, `\`${text}\` in \`sandbox\``);
    t.strictSame(readConfig({ [name]: text }), readConfig({}), `${name} in the sandbox`);
  }
  t.same(readConfig({ ...direct, BASE_URL: 'http://localhost:3000' }), readConfig(direct));
  t.same(readConfig({ ...direct, TLS_REPORTS_CONTACT: 'postmaster@mail.example.com' }), readConfig(direct));
  t.same(readConfig({ SMTP_HOST: '127.0.0.1' }), readConfig({}));
});

t.test('the page lists all variables as they are, and the README those that most people set', async (t) => {
  t.equal(readFileSync(new URL('../docs/config.md', import.meta.url), 'utf8'), configPage());
  const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
  const rows: string[] = readme.slice(readme.indexOf('## Configuration')).match(/^[|] `[A-Z_]+` [|].*$/gm) ?? [];
  t.strictSame(
    rows,
    configRows().filter((row) => rows.includes(row)),
  );
  // Without these nobody starts it on a database of their own, or on the internet.
  for (const name of ['DATABASE_URL', 'DELIVERY_MODE', 'MAIL_HOSTNAME', 'BASE_URL', 'JWT_SECRET', 'ENCRYPTION_KEY'])
    t.ok(
      rows.some((row) => row.startsWith(`| \`${name}\` `)),
      name,
    );
});

function refusalOf(env: Record<string, string>): string {
  try {
    readConfig(env);
    return 'it was accepted';
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
}

t.test('a node shows a certificate if it has the role and a port for it', (t) => {
  const off = { INBOUND_SMTP_PORT: '0', SUBMISSION_PORT: '0', SUBMISSIONS_PORT: '0' };
  t.ok(hasSmtpPort(readConfig({ ...off, INBOUND_SMTP_PORT: '2525' })));
  t.notOk(hasSmtpPort(readConfig(off)));
  t.notOk(hasSmtpPort(readConfig({ ROLES: 'api,mta' })));
  t.end();
});
