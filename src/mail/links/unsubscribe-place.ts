/**
 * Where the bodies of marketing mail have the reader's own unsubscribe link: `{{{UNSUBSCRIBE_URL}}}`. The names that Resend
 * and Postmark use are recognized too; otherwise they would be sent as they are.
 */
const place =
  /\{\{\{ {0,3}(?:(?:RESEND_)?UNSUBSCRIBE_URL|pm:unsubscribe(?:_url)?) {0,3}\}\}\}|\{\{ {0,3}(?:(?:RESEND_)?UNSUBSCRIBE_URL|pm:unsubscribe(?:_url)?) {0,3}\}\}/g;

/** Keys of a template that stand for the link if no value is given. */
export const unsubscribeKeys: ReadonlySet<string> = new Set(['UNSUBSCRIBE_URL', 'RESEND_UNSUBSCRIBE_URL']);

/** Whether the text has a place for the link, and so differs for each reader. */
export const holdsUnsubscribePlace = (text: string | null): boolean =>
  text?.includes('{{') === true && text.search(place) >= 0;

/** The most places in one text: the link makes each six times as long, and every reader gets a text of their own. */
export const mostUnsubscribePlaces = 1_000;

/** Whether the text has more than `mostUnsubscribePlaces`. */
export const hasTooManyUnsubscribePlaces = (text: string | null): boolean =>
  text?.includes('{{') === true && (text.match(place)?.length ?? 0) > mostUnsubscribePlaces;

/** The text as this reader gets it. Our URLs need no escaping in HTML. */
export const withUnsubscribeUrl = (text: string, url: string): string =>
  text.includes('{{') ? text.replaceAll(place, () => url) : text;
