/** What other services call a member of ours, which would not be done here, or not so, if the name were passed over. */
interface Elsewhere {
  /** Our name. */
  meant: string;
  /** What ours takes, where that is something else than theirs. */
  takes?: string;
  /** Whether what is given asks for something else than is done without it; omitted, whatever is given does. */
  asks?: (value: unknown, input: Record<string, unknown>) => boolean;
}

const same = (meant: string, ...names: string[]) => names.map((name) => [name, { meant }] as const);

/** Who may only look, or only do something that is not known here. What we give without it may send, and look. */
const mayLess: Elsewhere = {
  meant: 'scopes',
  takes: 'a list of send and read',
  asks: (value, { scopes }) =>
    !given(scopes) && !wordsOf(value).some((word) => /send|full|admin|write|^all$|[*]/.test(word)),
};

const fewerDomains: Elsewhere = {
  meant: 'domains',
  takes: 'a list of their names',
  asks: (value, { domains }) => !given(domains) && value !== '' && !(Array.isArray(value) && value.length === 0),
};

/** Where it says `marketing` itself, or nothing about it, there is nothing to say. */
const isMarketing: Elsewhere = {
  meant: 'type',
  takes: 'transactional or marketing',
  asks: (value, { type }) =>
    !given(type) &&
    typeof value === 'string' &&
    /broadcast|marketing|newsletter|promotion|bulk/i.test(value.slice(0, longestWord)),
};

const ofKey: Elsewhere = {
  meant: 'algorithm',
  takes: 'rsa or ed25519',
  // An `rsa` key is what is made where nothing is said.
  asks: (value, { algorithm, private_key: ours }) => !given(algorithm) && (given(ours) || wordsOf(value)[0] !== 'rsa'),
};

const all = (what: Elsewhere, ...names: string[]) => names.map((name) => [name, what] as const);

/** By their names in lower case without `_`, `-` and an `s` at the end. */
const known: (readonly [name: string, what: Elsewhere])[] = [
  ...same('scheduled_at', 'sendat', 'sendtime', 'sendafter', 'deliverat', 'deliverytime', 'o:deliverytime'),
  ...same('expires_at', 'expiresin', 'expiry', 'expiration', 'ttl'),
  ...same('content_id', 'cid'),
  ...same('fallback_value', 'fallback', 'default', 'defaultvalue'),
  ...same('url', 'endpoint', 'endpointurl', 'webhookurl', 'callbackurl'),
  ...same('events', 'eventtype', 'enabledevent', 'filtertype'),
  ...all(mayLess, 'permission', 'role', 'acces', 'accesslevel', 'readonly'),
  ...all(fewerDomains, 'domainid', 'domainname', 'alloweddomain', 'sendingdomain', 'senderdomain'),
  ...all(fewerDomains, 'restrictto', 'restrictedto', 'restriction'),
  ...all(isMarketing, 'messagestream', 'stream', 'messagetype', 'emailtype'),
  ...all(ofKey, 'type', 'keytype', 'alg', 'keyalgorithm'),
];

const byName = Map.groupBy(known, ([name]) => name);

/**
 * The member that is meant by a name that is not known, and what it takes, in words.
 *
 * @param plain the name in lower case without `_`, `-` and an `s` at the end
 * @param names those that are known
 */
export function calledElsewhere(
  plain: string,
  value: unknown,
  { names, input }: { names: string[]; input: Record<string, unknown> },
): string | null {
  const candidates = byName.get(plain) ?? [];
  const [, what] = candidates.find(([, { meant }]) => names.includes(meant)) ?? [];
  if (!what || what.asks?.(value, input) === false) return null;
  return `is called ${what.meant} here${what.takes === undefined ? '' : `: ${what.takes}`}`;
}

const given = (value: unknown) => value !== undefined && value !== null;

const mostWords = 100;
const longestWord = 200;

/** The strings in a value, in a list, or in an object and its names; of a long one its beginning. */
function wordsOf(value: unknown): string[] {
  const found = typeof value === 'object' && value !== null ? Object.entries(value).flat() : [value];
  const words = found.filter((one): one is string => typeof one === 'string');
  return words.slice(0, mostWords).map((word) => word.slice(0, longestWord).toLowerCase());
}
