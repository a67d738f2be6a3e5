/** What every answer in every test must have: see AUTH-13 and AUTH-18 of the threats. */
const always: Record<string, RegExp> = {
  'x-content-type-options': /^nosniff$/,
  'x-frame-options': /^DENY$/,
  'referrer-policy': /^no-referrer$/,
  'content-security-policy': /default-src 'none'.*frame-ancestors 'none'/,
};

/** Another site's page must not read it, and nobody needs to know what it runs on. */
const never = ['access-control-allow-origin', 'access-control-allow-credentials', 'x-powered-by', 'server'];

/** Words that only our internals use. */
const insides = /node_modules|\.ts:\d+|\n\s+at |prisma|pg-pool|postgres(ql)?:\/\/|SQLSTATE/i;

/**
 * @throws Error if an answer lacks a header that protects its reader, has one that weakens it, or reveals our internals
 */
export function holdSafe(method: string, path: string, headers: Headers, text: string): void {
  const what = `${method} ${path.slice(0, 100)}`;
  for (const [name, value] of Object.entries(always)) {
    if (!value.test(headers.get(name) ?? '')) throw new Error(`${what}: ${name} is ${headers.get(name)}`);
  }
  for (const name of never) if (headers.has(name)) throw new Error(`${what}: has ${name}`);
  const policy = headers.get('content-security-policy') ?? '';
  if (/script-src[^;]*('unsafe-inline'|'unsafe-eval'|\*|data:|https?:)/.test(policy))
    throw new Error(`${what}: ${policy}`);
  const isJson = headers.get('content-type')?.startsWith('application/json');
  if (isJson && headers.get('cache-control') !== 'no-store') throw new Error(`${what}: may be cached`);
  if (isJson && text.startsWith('{"error"') && insides.test(text))
    throw new Error(`${what}: says ${text.slice(0, 300)}`);
}
