import t from 'tap';
import { refusalOfPlace } from '../../src/core/emails/draft.ts';
import { mostUnsubscribePlaces } from '../../src/mail/links/unsubscribe-place.ts';
import { requestOf } from '../support/accept.ts';

t.test('the number of unsubscribe links in a body is limited', async (t) => {
  const refused = (fields: Parameters<typeof requestOf>[2]) =>
    refusalOfPlace(requestOf('s@shop.test', ['a@a.test'], { type: 'marketing', ...fields }))?.detail ?? null;
  const places = (count: number) => '{{UNSUBSCRIBE_URL}}'.repeat(count);
  t.equal(refused({ html: places(mostUnsubscribePlaces), text: places(mostUnsubscribePlaces) }), null);
  const atMost = 'may have at most 1,000 places for the unsubscribe link';
  t.equal(refused({ html: places(mostUnsubscribePlaces + 1) }), `html: ${atMost}`);
  t.equal(refused({ text: '{{{pm:unsubscribe}}}'.repeat(250_000) }), `text: ${atMost}`);
  t.equal(refused({ text: places(5_000), type: 'transactional' }), null, 'in transactional mail it is plain text');
  t.equal(refused({ text: '{{ NAME }}'.repeat(5_000) }), null);
});
