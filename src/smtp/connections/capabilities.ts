/** What EHLO offered (RFC 5321 section 4.1.1.1). */
export interface Capabilities {
  startTls: boolean;
  pipelining: boolean;
  eightBitMime: boolean;
  smtpUtf8: boolean;
  /** The largest message in bytes, null when none was declared (RFC 1870). */
  size: number | null;
  /** Messages per connection and recipients per message; null if not declared (LIMITS, RFC 9422). */
  mails: number | null;
  recipients: number | null;
}

export const noCapabilities: Capabilities = {
  startTls: false,
  pipelining: false,
  eightBitMime: false,
  smtpUtf8: false,
  size: null,
  mails: null,
  recipients: null,
};

/** Reads the lines of a reply to EHLO. */
export function capabilitiesOf(lines: string[]): Capabilities {
  const offered = new Map<string, string[]>();
  for (const line of lines.slice(1)) {
    const [keyword = '', ...parameters] = line.trim().split(/\s+/);
    offered.set(keyword.toUpperCase(), parameters);
  }
  const size = Number(/^\d{1,15}$/.exec(offered.get('SIZE')?.[0] ?? '')?.[0] ?? 0);
  // RFC 9422 section 4: six digits at most, no leading zero.
  const limits = (offered.get('LIMITS') ?? []).map((limit) => /^([A-Z]+)=([1-9]\d{0,5})$/.exec(limit.toUpperCase()));
  const limit = (name: string) => {
    const found = limits.find((one) => one?.[1] === name);
    return found ? Number(found[2]) : null;
  };
  return {
    startTls: offered.has('STARTTLS'),
    pipelining: offered.has('PIPELINING'),
    eightBitMime: offered.has('8BITMIME'),
    smtpUtf8: offered.has('SMTPUTF8'),
    size: size > 0 ? size : null,
    mails: limit('MAILMAX'),
    recipients: limit('RCPTMAX'),
  };
}
