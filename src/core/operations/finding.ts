/** The checks before mail goes out to the internet. */
export const checkNames = [
  'delivery_mode',
  'outbound_port_25',
  'mail_hostname',
  'reverse_dns',
  'blocklist',
  'return_path',
  'dane_resolver',
  'domain',
  'dmarc',
  'clock',
  'disk_space',
  'database_durability',
  'database_rights',
  'base_url',
  'smtp_certificate',
] as const;
export type CheckName = (typeof checkNames)[number];

/** `unknown`: the check had no result, neither good nor bad. `note`: something is unfinished, but mail goes out without it. */
export const healths = ['ok', 'problem', 'unknown', 'note'] as const;
export type Health = (typeof healths)[number];

/** The result of one check. */
export interface Finding {
  check: CheckName;
  /** What was checked: an address, a domain, a host. */
  subject: string;
  health: Health;
  /** What was found, as a sentence. Remote text in it is cleaned and cut. */
  found: string;
  /** What to do about it, as a sentence; null when there is nothing to do. */
  advice: string | null;
}

/** Makes findings about one subject. */
export function about(check: CheckName, subject: string) {
  const finding = (health: Health, found: string, advice: string | null): Finding => ({
    check,
    subject,
    health,
    found,
    advice,
  });
  return {
    ok: (found: string) => finding('ok', found, null),
    problem: (found: string, advice: string) => finding('problem', found, advice),
    note: (found: string, advice: string) => finding('note', found, advice),
    unknown: (found: string, advice: string) => finding('unknown', found, advice),
  };
}
