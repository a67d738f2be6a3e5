import { type Bounce, plain, raw, report } from './build.ts';

const system = 'Microsoft Outlook <MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@example.com>';
const postmaster = 'postmaster@example.onmicrosoft.com';

/** Exchange, Exchange Online and Outlook.com. */
export const microsoft: Bounce[] = [
  report('Exchange Online: not found', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: system,
    subject: 'Undeliverable: Your order',
    text: `Your message to jane@example.com couldn't be delivered.

jane wasn't found at example.com.
`,
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.10
Diagnostic-Code: smtp;550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient jane@example.com not found by SMTP address lookup`,
  }),
  report(
    'Exchange Online: access denied, which means an unknown user',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    {
      from: postmaster,
      subject: 'Undeliverable: Your order',
      text: 'Delivery has failed to these recipients or groups:\n\njane@example.com\n',
      fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.4.1
Diagnostic-Code: smtp;550 5.4.1 Recipient address rejected: Access denied. AS(201806281) [AM5EUR02FT011.eop-EUR02.prod.protection.outlook.com]`,
    },
  ),
  report('Exchange Online: full', 'bounce', ['jane@example.com', 'mailbox_full', true], {
    from: system,
    subject: 'Undeliverable: Your order',
    text: 'The recipient’s mailbox is full and can’t accept messages now.\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.2.2
Diagnostic-Code: smtp;554 5.2.2 mailbox full; STOREDRV.Deliver.Exception:QuotaExceededException.MapiExceptionShutoffQuotaExceeded; Failed to process message due to a permanent exception`,
  }),
  report('Exchange Online: only members may write', 'bounce', ['team@example.com', 'policy', true], {
    from: system,
    subject: 'Undeliverable: Your order',
    text: 'The group only accepts messages from people in its organization or on its allowed senders list.\n',
    fields: `Final-Recipient: rfc822;team@example.com
Action: failed
Status: 5.7.133
Diagnostic-Code: smtp;550 5.7.133 RESOLVER.RST.SenderNotAuthenticatedForGroup; authentication required; Delivery restriction check failed because the sender was not authenticated when sending to this group`,
  }),
  report('Exchange Online: expired', 'bounce', ['jane@example.com', 'network', false], {
    from: postmaster,
    subject: 'Undeliverable: Your order',
    text: 'The server has tried to deliver this message, without success, and has stopped trying.\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 4.4.7
Diagnostic-Code: smtp;550 4.4.7 QUEUE.Expired; message expired`,
  }),
  report('Exchange Online: no such domain', 'bounce', ['jane@nowhere.test', 'bad_domain', true], {
    from: postmaster,
    subject: 'Undeliverable: Your order',
    text: "nowhere.test couldn't be found.\n",
    fields: `Final-Recipient: rfc822;jane@nowhere.test
Action: failed
Status: 5.4.310
Diagnostic-Code: smtp;550 5.4.310 DNS domain nowhere.test does not exist [Message=InfoDomainNonexistent] [LastAttemptedServerName=nowhere.test]`,
  }),
  report('Exchange Online: unknown at the server behind it', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: postmaster,
    subject: 'Undeliverable: Your order',
    text: "Your message to jane@example.com couldn't be delivered.\n",
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.351
Diagnostic-Code: smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 5.1.1 <jane@example.com>: Recipient address rejected: User unknown in relay recipient table`,
  }),
  report(
    'Exchange Online: the same words for a policy of that server',
    'bounce',
    ['jane@example.com', 'policy', true],
    {
      from: postmaster,
      subject: 'Undeliverable: Your order',
      text: "Your message to jane@example.com couldn't be delivered.\n",
      fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.351
Diagnostic-Code: smtp;550 5.1.351 Remote server returned unknown recipient or mailbox unavailable -> 550 5.7.1 Delivery is restricted`,
    },
  ),
  report('Exchange Online: delayed', 'delay', ['jane@example.com', 'network', false], {
    from: system,
    subject: 'Delivery delayed:Your order',
    text: 'Delivery to these recipients or groups is delayed. It will be retried.\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: delayed
Status: 4.4.7
Will-Retry-Until: Mon, 23 Nov 2026 09:00:00 +0000
X-Display-Name: jane@example.com`,
  }),
  report('Exchange on premises: not found, in German', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Microsoft Outlook <MicrosoftExchange@example.com>',
    subject: 'Unzustellbar: Ihre Bestellung',
    text: 'Fehler bei der Nachrichtenzustellung an folgende Empfänger oder Gruppen:\n\njane@example.com\nDie eingegebene E-Mail-Adresse konnte nicht gefunden werden.\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp;550 5.1.1 RESOLVER.ADR.RecipNotFound; not found
X-Display-Name: jane@example.com`,
  }),
  report('Exchange 2003: only a status', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'postmaster@example.com',
    subject: 'Delivery Status Notification (Failure)',
    text: 'This is an automatically generated Delivery Status Notification.\n\nDelivery to the following recipients failed.\n\n       jane@example.com\n\n\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.1`,
  }),
  report("Exchange 2003: another server's reply", 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'System Administrator <postmaster@example.com>',
    subject: 'Undeliverable: Your order',
    text: `Your message

  To:      jane@example.com
  Subject: Your order
  Sent:    Mon, 23 Nov 2026 08:00:00 +0000

did not reach the following recipient(s):

jane@example.com on Mon, 23 Nov 2026 08:00:00 +0000
    There was a SMTP communication problem with the recipient's email
server.  Please contact your system administrator.
    <ex.example.com #5.5.0 smtp;550 5.1.1 unknown user>
`,
    fields: `Final-Recipient: RFC822; jane@example.com
Action: failed
Status: 5.5.0
X-Supplementary-Info: <ex.example.com #5.5.0 smtp;550 5.1.1 unknown user>
X-Display-Name: jane@example.com`,
  }),
  report('Exchange 2003: a warning', 'delay', ['jane@example.com', 'network', false], {
    from: 'postmaster@example.com',
    subject: 'Delivery Status Notification (Delay)',
    text: 'This is an automatically generated Delivery Status Notification.\n\nTHIS IS A WARNING MESSAGE ONLY.\n\nYOU DO NOT NEED TO RESEND YOUR MESSAGE.\n\nDelivery to the following recipients has been delayed.\n\n       jane@example.com\n',
    fields: `Final-Recipient: rfc822;jane@example.com
Action: delayed
Status: 4.4.7
Will-Retry-Until: Mon, 23 Nov 2026 09:00:00 +0000`,
  }),
  plain('Exchange 5.5: text only', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'System Administrator <postmaster@example.com>',
    subject: 'Undeliverable: Your order',
    text: `
Your message

  To:      jane@example.com
  Subject: Your order
  Sent:    Sat, 21 Nov 2026 09:00:00 +0100

did not reach the following recipient(s):

jane@example.com on Sat, 21 Nov 2026 09:00:05 +0100
    The recipient name is not recognized
	The MTS-ID of the original message is: c=us;a= ;p=example;l=MX-261121090005Z-1234
    MSEXCH:IMS:EXAMPLE:SITE:MX 0 (000C05A6) Unknown Recipient
`,
  }),
  plain('Outlook client: a failed transport', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'System Administrator',
    subject: 'Undeliverable: Your order',
    text: `
Your message did not reach some or all of the intended recipients.

      Subject:	Your order
      Sent:	21/11/2026 09:00

The following recipient(s) could not be reached:

      'jane@example.com' on 21/11/2026 09:00
            The e-mail account does not exist at the organization this message was sent to.  Check the e-mail address, or contact the recipient directly to find out the correct address.
            <mx.example.com #5.1.1>
`,
  }),
  report('Outlook.com: mailbox unavailable', 'bounce', ['jane@hotmail.com', 'bad_mailbox', true], {
    from: 'postmaster@outlook.com',
    subject: 'Undeliverable: Your order',
    text: 'Delivery has failed to these recipients or groups:\n',
    fields: `Final-Recipient: rfc822;jane@hotmail.com
Action: failed
Status: 5.5.0
Diagnostic-Code: smtp;550 5.5.0 Requested action not taken: mailbox unavailable (S2017062302).`,
  }),
  raw(
    'Exchange Online: HTML text, with fields in French next to it',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `From: =?iso-8859-1?Q?Microsoft_Outlook?= <postmaster@example.fr>
Subject: =?iso-8859-1?Q?Non_remis_:_Votre_commande?=
Auto-Submitted: auto-generated
Content-Type: multipart/report; report-type=delivery-status; boundary=b

--b
Content-Type: multipart/alternative; boundary=c

--c
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

<html><body><p>Votre message n'a pas pu =EAtre remis =E0 <b>jane@example.com</b>.</p></body></html>

--c--
--b
Content-Type: message/delivery-status

Reporting-MTA: dns;MX.example.fr

Original-recipient: rfc822;jane@example.com
Final-recipient: rfc822;jane@example.com
Action: failed
Status: 5.1.1
Diagnostic-code: smtp;550 5.1.1 RESOLVER.ADR.ExRecipNotFound; not found

--b--
`,
  ),
];
