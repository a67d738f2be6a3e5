import { isDeepStrictEqual } from 'node:util';
import { detectMimeType } from 'nodemailer/lib/mime-funcs';
import { pastToleranceMs } from '../core/send-limits.ts';

type Input = Record<string, unknown>;
/** Whether what is given asks for something else than is done without it. */
type Asks = (value: unknown, input: Input) => boolean;
/** Whether an object with members of these names is one in which the name means something. */
type Where = (names: string[]) => boolean;

/** What other services call a member of ours, which would not be done here, or not so, if the name were passed over. */
interface Elsewhere {
  where: Where;
  /** What to do instead. */
  words: string;
  asks: Asks;
}

const isGiven = (value: unknown) => value !== undefined && value !== null;

/** What asks for nothing: many clients send every field that they know. */
export function isNothing(value: unknown): boolean {
  if (!isGiven(value) || value === false || value === '') return true;
  if (typeof value !== 'object') return false;
  // Its names are not listed: it may have very many.
  for (const _ in value) return false;
  return true;
}

const asksAtAll: Asks = (value) => !isNothing(value);

const isText = (value: unknown, pattern = /./s): value is string =>
  typeof value === 'string' && pattern.test(value.slice(0, longestWord));

const isFilled = (value: unknown) => typeof value === 'object' && !Array.isArray(value) && !isNothing(value);

/** Yes in a word, as of a form or of a variable of the environment. */
const isYes: Asks = (value) => asksAtAll(value, {}) && value !== 0 && !isText(value, /^(false|no|off|0|none|never)$/i);

const has =
  (...known: string[]): Where =>
  (names) =>
    known.every((name) => names.includes(name));

const hasAny =
  (...known: string[]): Where =>
  (names) =>
    known.some((name) => names.includes(name));

/** Who gives ours as well has said what he means. */
const unless =
  (ours: string, asks: Asks = asksAtAll): Asks =>
  (value, input) =>
    isNothing(input[ours]) && asks(value, input);

/** For a change, which may begin with what was answered: ours is there, and is not what is asked for. */
const differs =
  (ours: string): Asks =>
  (value, input) =>
    !isNothing(value) && !isDeepStrictEqual(value, input[ours]);

const called = (ours: string, { takes = '', where = has(ours), asks = unless(ours) } = {}): Elsewhere => ({
  where,
  words: `is called ${ours} here${takes && ': '}${takes}`,
  asks,
});

const longestWord = 200;
const mostWords = 100;

/** The strings in a value, in a list, or in an object and its names; of a long one its beginning. */
function wordsOf(value: unknown): string[] {
  const found = typeof value === 'object' && value !== null ? Object.entries(value).flat() : [value];
  const words = found.filter((one): one is string => typeof one === 'string');
  return words.slice(0, mostWords).map((word) => word.slice(0, longestWord).toLowerCase());
}

/** A time that has come means at once, which is what is done. Seconds and milliseconds since 1970 are told apart by their size. */
function isAhead(value: unknown): boolean {
  if (isNothing(value)) return false;
  const number = isText(value, /^\d{9,13}$/) ? Number(value) : value;
  let ms = Number.NaN;
  if (typeof number === 'number') ms = number < 1e11 ? number * 1_000 : number;
  else if (isText(number)) ms = Date.parse(number.slice(0, longestWord));
  return !(ms <= Date.now() + pastToleranceMs);
}

/** Who may only look, or only do something that is not known here. What we give without it may send, and look. */
const mayLess = called('scopes', {
  takes: 'a list of send and read',
  asks: (value, { scopes }) =>
    !isGiven(scopes) &&
    // An empty list of permissions is less than any.
    (Array.isArray(value) || asksAtAll(value, {})) &&
    !wordsOf(value).some((word) => /send|full|admin|write|^all$|[*]/.test(word)),
});

const fewerDomains = called('domains', {
  takes: 'a list of their names',
  asks: (value, { domains }) => !isGiven(domains) && asksAtAll(value, {}),
});

/** Not `newsletter-confirmation`, and not `non-marketing`. */
const marketing =
  /^(?!(.*[-_ .])?no[nt]?[-_ .])(.*[-_ .])?(broadcasts?|marketing|newsletters?|promo(tion(s|al)?)?|bulk)([-_ .](e?mails?|messages?|stream|campaigns?))?$/i;

/** Where it says `marketing` itself, or nothing about it, there is nothing to say. */
const isMarketing = called('type', {
  takes: 'transactional or marketing',
  asks: unless('type', (value) => isText(value) && value.length <= longestWord && marketing.test(value)),
});

/** An `rsa` key is what is made where nothing is said. */
const ofKey = called('algorithm', {
  takes: 'rsa or ed25519',
  asks: unless('algorithm', (value, { private_key: ours }) => {
    return asksAtAll(value, {}) && (isGiven(ours) || wordsOf(value)[0] !== 'rsa');
  }),
});

/** A domain has its own from the beginning, which would sign, beside a record that says the other. */
const keyOfDomain: Elsewhere = {
  where: has('pool'),
  words: 'goes to POST /api/v1/domains/:id/rotate-dkim, once the domain is there',
  asks: asksAtAll,
};

const moreTls = called('tls', {
  takes: 'required or verified',
  asks: unless('tls', (value) => value === true || isText(value, /requ|enforce|mandat|strict|verif|^(yes|true|1)$/i)),
});

/** A body of the other kind goes out, and alone. */
const otherBody = (ours: string) =>
  called(ours, { asks: unless(ours, (value, { template }) => isText(value) && !isGiven(template)) });

const inTemplate: Elsewhere = {
  where: has('template'),
  words: 'is called template.variables here',
  asks: (value, { template }) => isFilled(value) && isGiven(template) && isNothing((template as Input).variables),
};

/** Of a name that says nothing the type cannot be guessed; else it is what is meant, or another word for it. */
const typeOfFile = called('content_type', {
  asks: unless(
    'content_type',
    (value, { filename }) =>
      isText(value, /\//) && isText(filename) && detectMimeType(filename) === 'application/octet-stream',
  ),
});

const sends = hasAny('to', 'emails');

const trial: Elsewhere = {
  where: sends,
  words: 'is no field but a parameter of the call: POST /api/v1/emails?dry_run=true',
  asks: isYes,
};

/** Credit that is added twice is money. */
const idempotencyKey: Elsewhere = {
  where: hasAny('to', 'emails', 'amount'),
  words: 'is no field but a header: Idempotency-Key',
  asks: asksAtAll,
};

/** What is said once for many, where each says it: those that do not would go without. */
const ofEach = (list: string, ours: string, asks = asksAtAll): Elsewhere => ({
  where: has(list),
  words: `is a field of each of ${list}, not of all of them`,
  asks: (value, input) => {
    const all = input[list];
    return asks(value, input) && Array.isArray(all) && all.some((one) => isNothing((one as Input | null)?.[ours]));
  },
});

const times = [
  ...['sendat', 'sendtime', 'sendafter', 'sendon', 'deliverat', 'deliverytime', 'o:deliverytime', 'deliverafter'],
  ...['scheduledfor', 'schedulefor', 'scheduledtime', 'scheduletime', 'scheduleddate', 'notbefore'],
];

/** By their names in lower case without `_`, `-`, blanks and an `s` at the end. */
const known: (readonly [what: Elsewhere, ...names: string[]])[] = [
  [called('scheduled_at', { asks: unless('scheduled_at', isAhead) }), ...times],
  [ofEach('emails', 'scheduled_at', isAhead), 'scheduledat', 'scheduled', ...times],
  [ofEach('emails', 'type', (value) => value === 'marketing'), 'type'],
  [ofEach('emails', 'tls', (value) => isText(value, /requ|verif/i)), 'tl'],
  [ofEach('emails', 'cc'), 'cc'],
  [ofEach('emails', 'bcc'), 'bcc'],
  [ofEach('emails', 'reply_to'), 'replyto'],
  [ofEach('emails', 'headers'), 'header'],
  [ofEach('emails', 'attachments'), 'attachment'],
  [ofEach('suppressions', 'reason', (value) => isText(value)), 'reason'],
  [called('expires_at'), 'expiresin', 'expiry', 'expiration', 'ttl'],
  [called('content_id'), 'cid'],
  [
    called('fallback_value', {
      asks: (value, { fallback_value: ours }) => isGiven(value) && value !== false && !isGiven(ours),
    }),
    ...['fallback', 'default', 'defaultvalue'],
  ],
  [called('url', { asks: differs('url') }), 'endpoint', 'endpointurl', 'webhookurl', 'callbackurl'],
  [called('events', { asks: differs('events') }), 'eventtype', 'enabledevent', 'filtertype'],
  [
    {
      where: has('url', 'events'),
      words: 'is made by the service: the answer of this call has it',
      asks: (value, { id }) => isText(value) && !isGiven(id),
    },
    ...['secret', 'signingsecret'],
  ],
  [mayLess, 'permission', 'role', 'acces', 'accesslevel', 'readonly'],
  [fewerDomains, 'domainid', 'domainname', 'alloweddomain', 'sendingdomain', 'senderdomain'],
  [fewerDomains, 'restrictto', 'restrictedto', 'restriction'],
  [isMarketing, 'messagestream', 'stream', 'messagetype', 'emailtype'],
  [ofKey, 'type', 'keytype', 'alg', 'keyalgorithm'],
  [called('private_key', { asks: unless('private_key', (value) => isText(value, /PRIVATE KEY/)) }), 'key', 'pem'],
  [called('private_key'), 'dkimprivatekey'],
  [called('selector'), 'dkimselector'],
  [keyOfDomain, 'algorithm', 'privatekey', 'selector'],
  [called('domain'), 'name', 'domainname'],
  [moreTls, 'requiretl', 'tlsrequired', 'o:requiretl', 'forcetl', 'tlspolicy'],
  [called('reply_to'), 'replytoaddres', 'replytoaddresse', 'replytoemail', 'replytolist', 'h:replyto'],
  [called('cc'), 'ccaddres', 'ccaddresse', 'ccemail'],
  [called('bcc'), 'bccaddres', 'bccaddresse', 'bccemail'],
  [called('headers'), 'customheader', 'extraheader', 'additionalheader'],
  [called('attachments', { asks: unless('attachments', Array.isArray) }), 'file', 'attachedfile'],
  [otherBody('html'), 'htmlbody', 'bodyhtml', 'htmlcontent', 'htmlpart'],
  [otherBody('text'), 'textbody', 'bodytext', 'textcontent', 'textpart', 'plaintext', 'plain'],
  [
    called('template', {
      where: has('to', 'html'),
      takes: '{"id": "...", "variables": {...}}',
      // Beside a text it is a label of one's own.
      asks: unless('template', (value, { html, text }) => asksAtAll(value, {}) && isNothing(html) && isNothing(text)),
    }),
    ...['templateid', 'templatealia', 'templatename'],
  ],
  [inTemplate, 'variable', 'templatevariable', 'templatedata', 'templatemodel', 'dynamictemplatedata', 'mergevar'],
  [
    {
      where: (names) => names.includes('variables') && !names.includes('html'),
      words: 'is called variables here',
      asks: unless('variables', isFilled),
    },
    ...['data', 'value', 'param', 'parameter', 'model', 'var', 'mergevar', 'substitution'],
  ],
  [
    {
      where: (names) => names.includes('alias') && !names.includes('html'),
      words: 'is not chosen here: what is published is sent',
      asks: (value) => value === 'draft',
    },
    'version',
  ],
  [called('filename', { where: has('content_id') }), 'name'],
  [typeOfFile, 'type', 'mimetype', 'mediatype'],
  [called('address', { where: has('address', 'reason') }), 'email', 'emailaddres', 'recipient'],
  [
    called('reason', {
      where: has('address', 'reason'),
      asks: unless('reason', (value) => isText(value, /bounce|complain|spam|unsub/i)),
    }),
    ...['type', 'suppressionreason', 'suppressiontype'],
  ],
  [
    called('suspended', { asks: (value, { suspended }) => typeof value === 'boolean' && !isGiven(suspended) }),
    ...['suspend', 'issuspended'],
  ],
  [called('since'), 'from', 'start', 'after'],
  [called('until', { where: has('since', 'until') }), 'to', 'end', 'before'],
  [trial, 'dryrun', 'sandbox', 'sandboxmode', 'testmode', 'o:testmode'],
  [idempotencyKey, 'idempotencykey'],
];

const byName = Map.groupBy(
  known.flatMap(([what, ...names]) => names.map((name) => ({ name, what }))),
  ({ name }) => name,
);

/**
 * What to do about a name that is not known, in words; null where it may be passed over.
 *
 * @param plain the name in lower case without `_`, `-`, blanks and an `s` at the end
 * @param names those that are known
 */
export function calledElsewhere(
  plain: string,
  value: unknown,
  { names, input }: { names: string[]; input: Input },
): string | null {
  const meant = byName.get(plain)?.find(({ what }) => what.where(names) && what.asks(value, input));
  return meant?.what.words ?? null;
}

/** Whether an object with members of these names is an email to be sent, or holds some: null counts as absent there. */
export const isToBeSent = sends;
