import { createHmac, generateKeyPairSync, sign as signWith } from 'node:crypto';

type Json = Record<string, unknown>;

/** What a forger has: our key, good claims, and what of ours is public. */
export interface Forgery {
  secret: string;
  /** Good claims, without `exp`. */
  claims: Json;
  /** In seconds. */
  now: number;
  /** A valid token. */
  token: string;
  /** A public key of this server that anybody can get, such as a DKIM key in DNS. */
  publicKey: string;
}

const encoded = (text: string | Buffer) => Buffer.from(text).toString('base64url');
const ours = { alg: 'HS256', typ: 'JWT' };

/** A token made by hand from any two texts, signed with HMAC. */
function forge(header: unknown, claims: unknown, secret: string | Buffer, hash = 'sha256'): string {
  const text = (part: unknown) => (typeof part === 'string' || Buffer.isBuffer(part) ? part : JSON.stringify(part));
  const signed = `${encoded(text(header))}.${encoded(text(claims))}`;
  return `${signed}.${createHmac(hash, secret).update(signed).digest('base64url')}`;
}

/**
 * Invalid tokens, in the manner of Wycheproof's vectors: most are signed with our key, so that the signature is not what
 * they fail for. The names say what is wrong.
 */
export function badTokens({ secret, claims, now, token, publicKey }: Forgery): Record<string, string> {
  const good = { ...claims, exp: now + 3_600 };
  const [head = '', payload = '', signature = ''] = token.split('.');
  const { privateKey, publicKey: strange } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const pem = strange.export({ type: 'spki', format: 'pem' }).toString();
  const jwk = strange.export({ format: 'jwk' });
  const asymmetric = (header: Json) => {
    const signed = `${encoded(JSON.stringify(header))}.${payload}`;
    return `${signed}.${signWith('sha256', Buffer.from(signed), privateKey).toString('base64url')}`;
  };
  const withHeader = (more: Json) => forge({ ...ours, ...more }, good, secret);
  const withClaims = (more: Json) => forge(ours, { ...good, ...more }, secret);
  const flipped = encoded(
    Buffer.from(signature, 'base64url').map((byte, at) => (at === 9 ? byte ^ 1 : byte)) as Buffer,
  );
  const claimsText = JSON.stringify(good);
  const twice = (member: string) => forge(ours, `${claimsText.slice(0, -1)},${member}}`, secret);

  const algorithms = Object.fromEntries(
    [
      'none',
      'None',
      'NONE',
      'nOnE',
      'none\0',
      ' none',
      '',
      'HS1',
      'HS256 ',
      'hs256',
      'HS384',
      'RS256',
      'ES256',
      'PS256',
      'EdDSA',
      'dir',
    ].flatMap((alg) => [
      [`alg ${JSON.stringify(alg)}`, forge({ ...ours, alg }, good, secret)],
      [`alg ${JSON.stringify(alg)} and no signature`, `${encoded(JSON.stringify({ ...ours, alg }))}.${payload}.`],
    ]),
  );
  const oddAlgorithms = Object.fromEntries(
    [null, 0, true, [], ['HS256'], { HS256: 1 }].map((alg) => [`alg ${JSON.stringify(alg)}`, withHeader({ alg })]),
  );
  const headers = Object.fromEntries(
    Object.entries<Json>({
      'a kid that is a path': { kid: '../../../../dev/null' },
      'a kid that is a file': { kid: '/proc/sys/kernel/randomize_va_space' },
      'a kid that is SQL': { kid: "x' UNION SELECT 'key'--" },
      'a kid that is a command': { kid: '|/usr/bin/id' },
      'a kid with a NUL': { kid: 'key\0' },
      'a jku': { jku: 'http://127.0.0.1:9/keys.json' },
      'an x5u': { x5u: 'http://127.0.0.1:9/cert.pem' },
      'an x5c': { x5c: [pem.replaceAll(/-----.*-----|\n/g, '')] },
      'a key of its own': { jwk: { kty: 'oct', k: encoded(secret) } },
      'a critical header': { crit: ['exp'], exp: now + 3_600 },
      'a payload that is not encoded': { b64: false, crit: ['b64'] },
      compression: { zip: 'DEF' },
      'another type': { typ: 'at+jwt' },
      'another content': { cty: 'JWT' },
    }).map(([name, more]) => [name, withHeader(more)]),
  );
  const times = Object.fromEntries(
    Object.entries<Json>({
      expired: { iat: now - 120, exp: now - 1 },
      'expired years ago': { iat: 0, exp: 1 },
      'without an expiry': { exp: undefined },
      'an expiry that is text': { exp: String(now + 3_600) },
      'an expiry that is null': { exp: null },
      'an expiry that is a list': { exp: [now + 3_600] },
      'valid for longer than we give': { exp: now + 13 * 3_600 },
      'valid for a day and a bit': { iat: now - 60, exp: now + 86_400 },
      'valid forever': { exp: 9_007_199_254_740_991 },
      'valid for more than forever': { exp: 1e308 },
      'without a start': { iat: undefined },
      'a start that is text': { iat: String(now) },
      'from the future': { iat: now + 3_600, exp: now + 7_200 },
      'before its time': { nbf: now + 3_600 },
      'before its time, in text': { nbf: String(now - 60) },
    }).map(([name, more]) => [name, withClaims(more)]),
  );
  const people = Object.fromEntries(
    Object.entries<Json>({
      'another audience': { aud: 'sendwright' },
      'no audience': { aud: undefined },
      'an audience in capitals': { aud: 'SENDWRIGHT-API' },
      'an audience of others': { aud: ['x', 'y'] },
      'an audience that is an object': { aud: { 'sendwright-api': true } },
      'another issuer': { iss: 'https://sendwright' },
      'no issuer': { iss: undefined },
      'an issuer in a list with others': { iss: ['x', 'sendwright'] },
      nobody: { sub: undefined },
      'a number': { sub: 1 },
      'a list of users': { sub: [claims.sub] },
      'a pattern of users': { sub: { contains: '' } },
      'a filter for any user': { sub: { not: null } },
      'SQL for a user': { sub: `${String(claims.sub)}' OR '1'='1` },
      'no account': { acc: null },
      'a password of later': { pwd: Number.MAX_SAFE_INTEGER },
      'a password in text': { pwd: String(claims.pwd) },
      'no password': { pwd: undefined },
      'a pattern of accounts': { acc: { not: '' } },
    }).map(([name, more]) => [name, withClaims(more)]),
  );
  return {
    ...algorithms,
    ...oddAlgorithms,
    ...headers,
    ...times,
    ...people,
    'no alg': forge({ typ: 'JWT' }, good, secret),
    'HMAC with a public key': forge(ours, good, publicKey),
    'HMAC with the PEM of a public key': forge({ ...ours, alg: 'HS256' }, good, pem),
    'HMAC with nothing': forge(ours, good, ''),
    'HMAC with the name of the secret': forge(ours, good, 'JWT_SECRET'),
    'HMAC with the hash of the secret': forge(ours, good, createHmac('sha256', secret).digest()),
    'HMAC of another length': forge(ours, good, secret, 'sha512'),
    'HMAC of another length that says so': forge({ ...ours, alg: 'HS512' }, good, secret, 'sha512'),
    'a key of its own, and RSA': asymmetric({ alg: 'RS256', typ: 'JWT', jwk }),
    'RSA that calls itself HMAC': asymmetric(ours),
    'an empty signature': `${head}.${payload}.`,
    'no signature': `${head}.${payload}`,
    'a signature of NUL': `${head}.${payload}.${encoded(Buffer.alloc(32))}`,
    'a signature of ES256 that fits anything': `${encoded(JSON.stringify({ ...ours, alg: 'ES256' }))}.${payload}.${encoded(Buffer.alloc(64))}`,
    'a signature that is cut': token.slice(0, -1),
    'a signature that goes on': `${token}A`,
    'a signature with a wrong bit': `${head}.${payload}.${flipped}`,
    'a signature in hex': `${head}.${payload}.${Buffer.from(signature, 'base64url').toString('hex')}`,
    'a signature of other claims': `${head}.${encoded(JSON.stringify({ ...good, role: 'admin' }))}.${signature}`,
    padding: `${token}=`,
    'the alphabet of base64': `${head}.${payload}.${encoded(Buffer.alloc(32, 255)).replaceAll('_', '/')}`,
    'four parts': `${token}.${signature}`,
    'five parts': `${head}..${payload}.${signature}.${signature}`,
    'one part': head,
    dots: '..',
    'JSON instead of text': JSON.stringify({ protected: head, payload, signature }).replaceAll(' ', ''),
    'a header that is none': forge('x', good, secret),
    'a header that is a list': forge([ours], good, secret),
    'a header with a space': forge('{"alg": "HS256","typ":"JWT"}', good, secret),
    'a header with alg twice': forge('{"alg":"none","alg":"HS256","typ":"JWT"}', good, secret),
    'claims that are none': forge(ours, 'x', secret),
    'claims that are null': forge(ours, 'null', secret),
    'claims that are a list': forge(ours, [good], secret),
    'claims that are text': forge(ours, JSON.stringify(claimsText), secret),
    'claims that are no UTF-8': forge(
      ours,
      Buffer.concat([Buffer.from(claimsText.slice(0, -1)), Buffer.from(',"x":"\xff"}', 'latin1')]),
      secret,
    ),
    'claims that go on behind their end': forge(ours, `${claimsText}{}`, secret),
    'a user who is there twice': twice(`"sub":${JSON.stringify(claims.sub)}`),
    'an account that is there twice': twice(`"acc":${JSON.stringify(claims.acc)}`),
    'an expiry that is there twice': twice(`"exp":${now + 3_601}`),
    'a claim with the name of another in escapes': twice(`"\\u0073ub":${JSON.stringify(claims.sub)}`),
  };
}
