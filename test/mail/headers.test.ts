import t from 'tap';
import { refuseHeader } from '../../src/mail/headers/headers.ts';
import { readHeader } from '../../src/mail/headers/raw-header.ts';
import { harmless, refused, show } from './payloads.ts';

t.test('headers that only we set', async (t) => {
  for (const name of [
    ...[
      'From',
      'from',
      'FROM',
      'Sender',
      'To',
      'Cc',
      'Bcc',
      'bCC',
      'Reply-To',
      'Subject',
      'Date',
      'Message-ID',
      'message-id',
      'MIME-Version',
    ],
    ...[
      'Content-Type',
      'Content-Transfer-Encoding',
      'content-anything',
      'DKIM-Signature',
      'ARC-Seal',
      'arc-message-signature',
    ],
    ...[
      'Return-Path',
      'Received',
      'Resent-To',
      'Resent-Bcc',
      'Authentication-Results',
      'DomainKey-Signature',
      'X-Sendwright-Id',
    ],
  ]) {
    t.equal(refuseHeader(name, 'x'), 'is set by Sendwright', name);
  }
});

t.test('headers that a client may set', async (t) => {
  for (const name of [
    'List-Unsubscribe',
    'List-Unsubscribe-Post',
    'In-Reply-To',
    'References',
    'X-Any',
    'x',
    'Precedence',
    'Auto-Submitted',
    'List-Id',
    'Feedback-ID',
    '!#~',
  ]) {
    t.equal(refuseHeader(name, 'x y'), null, name);
  }
  t.equal(refuseHeader('X'.repeat(76), 'y'), null);
  for (const payload of harmless) t.equal(refuseHeader('X-A', payload), null, show(payload));
});

t.test('invalid names and values', async (t) => {
  for (const name of [
    '',
    'X A',
    'X:',
    'X-A:',
    'X\r\nBcc',
    'X\0',
    'Ünï',
    ' X',
    'X ',
    'X\t',
    ...refused.map((payload) => `X${payload}`),
  ]) {
    t.equal(refuseHeader(name, 'x'), 'is not a header name', show(name));
  }
  for (const payload of refused) t.type(refuseHeader('X-A', `a${payload}`), 'string', show(payload));
  t.equal(refuseHeader('X'.repeat(77), 'x'), 'has a name of more than 76 characters');
  t.equal(refuseHeader('X-A', ''), 'is empty');
  t.equal(refuseHeader('X-A', '  '), 'is empty');
  t.equal(refuseHeader('X-A', 'x'.repeat(2001)), 'must have at most 2,000 characters');
  t.equal(refuseHeader('X-A', 'x'.repeat(2000)), null);
  t.type(refuseHeader('List-Unsubscribe', `<https://x.example/${'x'.repeat(900)}>`), 'string');
});

t.test('reading a header block', async (t) => {
  const read = (text: string) => {
    const { fields, body } = readHeader(Buffer.from(text));
    return { fields: fields.map((field) => [field.name, field.raw.toString()]), body: text.slice(body) };
  };
  t.same(read('A: 1\r\nB : 2\r\n\t3\r\n 4\r\nA:\r\n\r\nC: body\r\n'), {
    fields: [
      ['A', 'A: 1\r\n'],
      ['B', 'B : 2\r\n\t3\r\n 4\r\n'],
      ['A', 'A:\r\n'],
    ],
    body: 'C: body\r\n',
  });
  t.same(read('A: 1\r\n'), { fields: [['A', 'A: 1\r\n']], body: '' });
  t.same(read('A: 1'), { fields: [['A', 'A: 1']], body: '' });
  t.same(read('\r\nbody'), { fields: [], body: 'body' });
  t.same(read(''), { fields: [], body: '' });
});
