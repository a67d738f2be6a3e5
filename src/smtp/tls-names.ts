/** What a sender can ask for, from the least to the most. */
export const tlsLevels = ['opportunistic', 'required', 'verified'] as const;
export type TlsLevel = (typeof tlsLevels)[number];

/** All that can be in force: what the sender asked for, or what the receiving domain has published. */
export type TlsPolicyName = TlsLevel | 'mta-sts' | 'dane';

/** How a session falls short, in the terms of TLS-RPT (RFC 8460 section 4.3). */
export type TlsFailure =
  | 'starttls-not-supported'
  | 'certificate-host-mismatch'
  | 'certificate-expired'
  | 'certificate-not-trusted'
  | 'validation-failure'
  | 'tlsa-invalid'
  | 'dnssec-invalid'
  | 'sts-policy-fetch-error'
  | 'sts-policy-invalid'
  | 'sts-webpki-invalid';
