/** What a sender can ask for, from the weakest to the strictest. */
export const tlsLevels = ['opportunistic', 'required', 'verified'] as const;
export type TlsLevel = (typeof tlsLevels)[number];

/** Every policy that can be in force: the sender's demand, or one that the receiving domain published. */
export type TlsPolicyName = TlsLevel | 'mta-sts' | 'dane';

/** How a session fell short, in the terms of TLS-RPT (RFC 8460 section 4.3). */
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
