import type { Email, EmailContent, EmailWithRecipients, Session } from '../../client/index.ts';

/** Quotes a text as one word for the shell. */
const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** A call that sends an email, for a shell. */
export const call = (baseUrl: string, key: string, body: object) =>
  [
    `curl ${baseUrl}/api/v1/emails \\`,
    `  -H ${quoted(`X-API-Key: ${key}`)} -H 'Content-Type: application/json' \\`,
    `  -d ${quoted(JSON.stringify(body))}`,
  ].join('\n');

export const someKey = 'sk_live_…';

/** Where a first email may go; null if no such address is known, as on a server whose operator logs in as `admin@localhost`. */
export function ownAddress({ service, user }: Session): string | null {
  if (service.sandbox) return 'you@anywhere.test';
  return user.email.split('@').at(-1)?.includes('.') ? user.email : null;
}

/** The ports for programs that send by SMTP. */
export const smtpPorts = ({ starttls_port, tls_port }: NonNullable<Session['service']['submission']>): string =>
  [starttls_port !== null && `${starttls_port} (STARTTLS)`, tls_port !== null && `${tls_port} (TLS)`]
    .filter(Boolean)
    .join(' or ');

/** Why no API call can send this email again (by SMTP it may have come without a subject or text); null if one can. */
export function whyNoCall(email: Email, content: EmailContent): string | null {
  const lacking = [!email.subject && 'a subject', !content.html && !content.text && 'a text'].filter(Boolean);
  if (lacking.length === 0) return null;
  return `A call needs ${lacking.join(' and ')}, which this email lacks because it came by SMTP. Use Resend to send it as it is.`;
}

/** The API call that sends this email again; its files are only named. */
export function sameEmail(baseUrl: string, to: string[], email: EmailWithRecipients, content: EmailContent): string {
  const given = <T>(name: string, value: T[] | string | null) => (value?.length ? { [name]: value } : {});
  const headers = Object.fromEntries(content.headers.map(({ name, value }) => [name, value]));
  return call(baseUrl, someKey, {
    from: email.from,
    to,
    ...given('cc', email.cc),
    ...given('bcc', email.bcc),
    ...given('reply_to', email.reply_to),
    subject: email.subject,
    ...given('html', content.html),
    ...given('text', content.text),
    ...(content.headers.length > 0 ? { headers } : {}),
    ...given('tags', email.tags),
    ...(email.type === 'marketing' ? { type: email.type } : {}),
    ...(email.tls === 'opportunistic' ? {} : { tls: email.tls }),
    ...(email.on_uncertain === 'retry' ? {} : { on_uncertain: email.on_uncertain }),
    ...given(
      'attachments',
      content.attachments.map(({ filename, content_type, content_id }) => ({
        filename,
        content_type,
        ...given('content_id', content_id),
        content: 'BASE64',
      })),
    ),
  });
}

export const webhookCall = (baseUrl: string): string =>
  [
    `curl ${baseUrl}/api/v1/webhooks -H 'Authorization: Bearer <token>' -H 'Content-Type: application/json' \\`,
    `  -d '{"url": "https://example.com/hooks", "events": ["email.delivered", "email.failed"]}'`,
  ].join('\n');

/** The command that ends a hold: mail that was due when it began is failed or sent. */
export const endOfHold = (choice: 'fail' | 'send'): string => `npm run -s sendwright -- release --waiting ${choice}`;
