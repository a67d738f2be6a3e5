import { type Bounce, plain, raw } from './build.ts';

/** Messages to a return path that are no bounces. */
export const others: Bounce[] = [
  plain('out of office, Exchange', 'auto_reply', null, {
    from: 'Jane <jane@example.com>',
    subject: 'Automatic reply: Your order',
    header: 'Auto-Submitted: auto-generated\nX-Auto-Response-Suppress: All',
    text: 'I am out of the office until Monday. Mail to this mailbox is not delivered to anybody else.\n',
  }),
  plain('vacation(1)', 'auto_reply', null, {
    from: 'jane@example.com',
    subject: 'away from my mail',
    header: 'Precedence: bulk\nAuto-Submitted: auto-replied (vacation)',
    text: 'I will not be reading my mail for a while.\n',
  }),
  plain('out of office, German, without a field that says so', 'auto_reply', null, {
    from: 'Jane <jane@example.com>',
    subject: 'Abwesenheitsnotiz: Ihre Bestellung',
    text: 'Ich bin bis Montag nicht im Hause. Ihre Nachricht wird nicht weitergeleitet.\n',
  }),
  plain('out of office, French', 'auto_reply', null, {
    from: 'Jane <jane@example.com>',
    subject: 'Réponse automatique : Votre commande',
    text: 'Je suis absente. Ce message n’a pas pu être remis à un collègue.\n',
  }),
  plain('out of office, Japanese', 'auto_reply', null, {
    from: 'jane@example.jp',
    subject: '=?utf-8?B?6Ieq5YuV5b+c562UOiDjgZTms6jmloc=?=',
    text: '不在です。\n',
  }),
  plain('an autoresponder with its own field', 'auto_reply', null, {
    from: 'support@example.com',
    subject: 'Your order',
    header: 'X-Autoreply: yes',
    text: 'We have received your message. 550 people write to us each day.\n',
  }),
  plain('somebody who has left', 'auto_reply', null, {
    from: 'jane@example.com',
    subject: 'Auto: Your order',
    header: 'Auto-Submitted: auto-replied',
    text: 'I no longer work here. This mailbox is disabled and the user unknown.\n',
  }),
  raw(
    'a receipt',
    'auto_reply',
    null,
    `From: Jane <jane@example.com>
Subject: Read: Your order
Content-Type: multipart/report; report-type=disposition-notification; boundary=b

--b
Content-Type: text/plain

Your message was read.

--b
Content-Type: message/disposition-notification

Final-Recipient: rfc822;jane@example.com
Disposition: automatic-action/MDN-sent-automatically; deleted

--b--
`,
  ),
  plain('a person who replies', 'unknown', null, {
    from: 'Jane <jane@example.com>',
    subject: 'Re: Your order',
    text: 'Thanks! One parcel could not be delivered though, the mailbox is full.\n',
  }),
  plain('a challenge', 'unknown', null, {
    from: 'Jane <jane@example.com>',
    subject: 'Please confirm that you are human',
    text: 'Click here to have your message let through.\n',
  }),
  plain('spam', 'unknown', null, {
    from: 'Winner <winner@spam.test>',
    subject: 'You won',
    text: 'Congratulations. 550 5.1.1 dollars.\n',
  }),
  raw('nothing at all', 'unknown', null, ''),
];
