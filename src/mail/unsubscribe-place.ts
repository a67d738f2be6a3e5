/**
 * Where the bodies of marketing mail have the reader's own link to unsubscribe: `{{{UNSUBSCRIBE_URL}}}`. What Resend and
 * Postmark call it is read too, as it would otherwise go out as it is.
 */
const place =
  /\{\{\{ {0,3}(?:(?:RESEND_)?UNSUBSCRIBE_URL|pm:unsubscribe(?:_url)?) {0,3}\}\}\}|\{\{ {0,3}(?:(?:RESEND_)?UNSUBSCRIBE_URL|pm:unsubscribe(?:_url)?) {0,3}\}\}/g;

/** Keys of a template that stand for the link where no value is given. */
export const unsubscribeKeys: ReadonlySet<string> = new Set(['UNSUBSCRIBE_URL', 'RESEND_UNSUBSCRIBE_URL']);

/** Whether this reader's text differs from everybody else's. */
export const holdsUnsubscribePlace = (text: string | null): boolean =>
  text?.includes('{{') === true && text.search(place) >= 0;

/** The most places in one text: each is six times as long once the link stands there, and every reader gets a text of their own. */
export const mostUnsubscribePlaces = 1_000;

export const hasTooManyUnsubscribePlaces = (text: string | null): boolean =>
  text?.includes('{{') === true && (text.match(place)?.length ?? 0) > mostUnsubscribePlaces;

/** The text as this reader gets it. A URL of ours needs no escaping in HTML. */
export const withUnsubscribeUrl = (text: string, url: string): string =>
  text.includes('{{') ? text.replaceAll(place, () => url) : text;
