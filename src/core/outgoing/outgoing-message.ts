import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Keyring, open } from '../../crypto/seal.ts';
import { parseMailbox } from '../../mail/address/address.ts';
import type { Body } from '../../mail/compose/body.ts';
import { compose } from '../../mail/compose/compose.ts';
import { signHeader } from '../../mail/compose/dkim.ts';
import { type DkimKey, parsePrivateKey } from '../../mail/compose/dkim-key.ts';
import { feedbackId, isFeedbackId } from '../../mail/headers/feedback-id.ts';
import type { Header } from '../../mail/headers/headers.ts';
import {
  listUnsubscribe,
  saysHowToUnsubscribe,
  type UnsubscribePlaces,
  unsubscribeUrl,
} from '../../mail/links/list-unsubscribe.ts';
import { holdsUnsubscribePlace, withUnsubscribeUrl } from '../../mail/links/unsubscribe-place.ts';
import { sealContext } from '../domains/domains.ts';
import type { OutgoingEmail, SealedKey } from './outgoing.ts';

/** The domain that signs, with its keys still sealed. */
export type Signing = NonNullable<OutgoingEmail['signing']>;

/** The parts of an email that its bytes are made of. */
export type MessageSource = Omit<OutgoingEmail, 'pool' | 'signing' | 'revoked' | 'suppressed' | 'suspended'>;

/** A key of the domain, decrypted. */
export function openKey(keyring: Keyring, { domainId, domain }: Signing, { selector, sealed }: SealedKey): DkimKey {
  return { domain, selector, privateKey: parsePrivateKey(open(keyring, sealed, sealContext(domainId))) };
}

/** True if each recipient gets a copy of their own, because the links in it say who unsubscribes. */
export function isPersonal(email: Pick<MessageSource, 'type' | 'headers'>): boolean {
  return email.type === 'marketing' && !saysHowToUnsubscribe(email.headers.map(([name]) => name));
}

/** Whose copy of a personal email it is, and where this recipient can unsubscribe. */
export interface CopyFor {
  position: number;
  address: string;
  places: UnsubscribePlaces;
}

/** True if each reader of a personal email gets a different body. */
export const hasPersonalBody = ({ html, text }: Pick<MessageSource, 'html' | 'text'>): boolean =>
  holdsUnsubscribePlace(html) || holdsUnsubscribePlace(text);

/** From this many characters on, a personal body is made in its own turn of the event loop. */
const ownTurnFrom = 50_000;

let turns: Promise<unknown> = Promise.resolve();

/** A newsletter to a hundred destinations needs as many bodies at once: without turns, everything else would wait for all. */
function ownTurn(): Promise<unknown> {
  turns = turns.then(() => nextTurn());
  return turns;
}

/** A message in pieces, which end with a line; the first piece has the whole header. */
export type MessagePieces = [first: Buffer, ...rest: Buffer[]];

/** A body of fewer bytes is copied behind its header: that costs less than sending two pieces. */
const inOnePiece = 16_384;

/** Those of its sender, and a Feedback-ID unless they have one. */
function headersOf({ headers, accountId, type }: MessageSource): Header[] {
  const given = headers.map(([name, value]) => ({ name, value }));
  return given.some(({ name }) => isFeedbackId(name)) ? given : [...given, feedbackId(accountId, type)];
}

/**
 * The signed bytes of an email as they are sent: the same each time, so that receivers recognize a second copy.
 *
 * @param copy null for an email that is the same for all
 * @param body if it was made before, for this email or for another with the same texts and no files; never a personal body
 */
export async function build(
  email: MessageSource,
  keys: DkimKey[],
  copy: CopyFor | null,
  body?: Body,
): Promise<MessagePieces> {
  const { id: emailId, accountId } = email;
  const reader = copy && { accountId, emailId, position: copy.position, address: copy.address };
  const url = reader && unsubscribeUrl(copy.places, reader);
  const own = reader && url !== null ? listUnsubscribe(copy.places, reader, url) : [];
  const textFor = (text: string | null) => (url !== null && text !== null ? withUnsubscribeUrl(text, url) : text);
  const isLarge = (email.html?.length ?? 0) + (email.text?.length ?? 0) >= ownTurnFrom;
  if (reader && isLarge && hasPersonalBody(email)) await ownTurn();
  const parts = {
    from: parseMailbox(email.from),
    to: email.to.map(parseMailbox),
    cc: email.cc.map(parseMailbox),
    replyTo: email.replyTo.map(parseMailbox),
    subject: email.subject,
    html: textFor(email.html),
    text: textFor(email.text),
    headers: [...headersOf(email), ...own],
    attachments: email.attachments,
    messageId: email.messageId,
    date: email.dueAt,
  };
  const message = await compose(parts, body);
  const signatures = await signHeader(message.header, message.body.hash, keys, email.dueAt);
  const { bytes } = message.body;
  if (bytes.length < inOnePiece) return [Buffer.concat([signatures, message.header, bytes])];
  return [Buffer.concat([signatures, message.header]), bytes];
}
