import { type Bounce, plain, raw, report } from './build.ts';

/** Google, Yahoo, AOL, the large ones of single countries, and gateways. */
export const providers: Bounce[] = [
  report('Gmail: no such user', 'bounce', ['jane@gmail.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    text: `** Address not found **

Your message wasn't delivered to jane@gmail.com because the address couldn't be found, or is unable to receive mail.

The response was:

550 5.1.1 The email account that you tried to reach does not exist.
`,
    fields: `Final-Recipient: rfc822; jane@gmail.com
Action: failed
Status: 5.1.1
Diagnostic-Code: smtp; 550-5.1.1 The email account that you tried to reach does not exist. Please try
 550-5.1.1 double-checking the recipient's email address for typos or
 550-5.1.1 unnecessary spaces. Learn more at
 550 5.1.1  https://support.google.com/mail/?p=NoSuchUser d2e1a72fcca58-1234 - gsmtp`,
  }),
  report('Gmail: no such domain', 'bounce', ['jane@nowhere.test', 'bad_domain', true], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    text: "** Address not found **\n\nYour message wasn't delivered to jane@nowhere.test because the domain nowhere.test couldn't be found.\n",
    fields: `Final-Recipient: rfc822; jane@nowhere.test
Action: failed
Status: 4.0.0
Diagnostic-Code: smtp; DNS Error: DNS type 'mx' lookup of nowhere.test responded with code NXDOMAIN
 Domain name not found: nowhere.test`,
  }),
  report('Gmail: delayed', 'delay', ['jane@example.com', 'network', false], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Delay)',
    text: '** Delivery incomplete **\n\nThere was a temporary problem delivering your message to jane@example.com. Gmail will retry for 45 more hours.\n',
    fields: `Final-Recipient: rfc822; jane@example.com
Action: delayed
Status: 4.4.1
Diagnostic-Code: smtp; The recipient server did not accept our requests to connect.`,
  }),
  report('Gmail: inbox full', 'bounce', ['jane@gmail.com', 'mailbox_full', false], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    text: "** Recipient inbox full **\n\nYour message couldn't be delivered to jane@gmail.com. Their inbox is full, or it's getting too much mail right now.\n",
    fields: `Final-Recipient: rfc822; jane@gmail.com
Action: failed
Status: 4.2.2
Diagnostic-Code: smtp; 452-4.2.2 The recipient's inbox is out of storage space. Please direct the
 452-4.2.2 recipient to https://support.google.com/mail/?p=OverQuotaTemp - gsmtp`,
  }),
  plain('Google, older: words and a field', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Failure)',
    header: 'X-Failed-Recipients: jane@example.com',
    text: `
Delivery to the following recipient failed permanently:

     jane@example.com

Technical details of permanent failure:
Google tried to deliver your message, but it was rejected by the server for the recipient domain example.com by mx.example.com. [192.0.2.9].

The error that the other server returned was:
550 5.1.1 <jane@example.com>: Recipient address rejected: User unknown

----- Original message -----

From: hello@sender.test
`,
  }),
  plain('Google, older: delayed', 'delay', ['jane@example.com', 'network', false], {
    from: 'Mail Delivery Subsystem <mailer-daemon@googlemail.com>',
    subject: 'Delivery Status Notification (Delay)',
    text: `
This is an automatically generated Delivery Status Notification

THIS IS A WARNING MESSAGE ONLY.

YOU DO NOT NEED TO RESEND YOUR MESSAGE.

Delivery to the following recipient has been delayed:

     jane@example.com

Message will be retried for 2 more day(s)

Technical details of temporary failure:
The recipient server did not accept our requests to connect. [mx.example.com 192.0.2.9: timed out]
`,
  }),
  plain('Yahoo, older', 'bounce', ['jane@yahoo.com', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@yahoo.com',
    subject: 'Failure Notice',
    text: `
Sorry, we were unable to deliver your message to the following address.

<jane@yahoo.com>:
Remote host said: 554 delivery error: dd This user doesn't have a yahoo.com account (jane@yahoo.com) [0] - mta1234.mail.gq1.yahoo.com [BODY]

--- Below this line is a copy of the message.

Received: from 192.0.2.1
`,
  }),
  report('Yahoo', 'bounce', ['jane@yahoo.com', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@atlas-production.v2-mail-prod1-gq1.omega.yahoo.com',
    subject: 'Failure Notice',
    text: 'Sorry, we were unable to deliver your message to the following address.\n',
    fields: `Final-Recipient: rfc822; jane@yahoo.com
Action: failed
Status: 5.0.0
Diagnostic-Code: smtp; 554 30 Sorry, your message to jane@yahoo.com cannot be delivered. This mailbox is disabled (554.30).`,
  }),
  report('AOL', 'bounce', ['jane@aol.com', 'mailbox_full', true], {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@aol.com>',
    subject: 'Mail Delivery Problem',
    text: 'Your mail to the following recipients could not be delivered because they are not accepting mail from you:\n  jane\n',
    fields: `Final-Recipient: RFC822; jane@aol.com
Action: failed
Status: 5.2.2
Diagnostic-Code: SMTP; 552 jane MAILBOX FULL`,
  }),
  plain('AOL, older: a transcript', 'bounce', ['jane@aol.com', 'bad_mailbox', true], {
    from: 'Mail Delivery Subsystem <MAILER-DAEMON@aol.com>',
    subject: 'Returned mail: User unknown',
    text: `
The original message was received at Sat, 21 Nov 2026 04:00:00 -0500 (EST)

*** ATTENTION ***

Your e-mail is being returned to you because there was a problem with its delivery.

   ----- The following addresses had permanent fatal errors -----
<jane@aol.com>

   ----- Transcript of session follows -----
... while talking to air-xd03.mail.aol.com.:
>>> RCPT To:<jane@aol.com>
<<< 550 MAILBOX NOT FOUND
550 <jane@aol.com>... User unknown
`,
  }),
  plain('GMX and WEB.DE', 'bounce', ['jane@gmx.de', 'bad_mailbox', true], {
    from: 'GMX Mailer Daemon <mailer-daemon@gmx.de>',
    subject: 'Mail delivery failed: returning message to sender',
    text: `
This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its recipients. This is a permanent error.

The following address failed:

jane@gmx.de:
Requested action not taken: mailbox unavailable
For explanation visit http://postmaster.gmx.com/en/error-messages?ip=192.0.2.1&c=em

--- The header of the original message is following. ---

Received: from out.sender.test
`,
  }),
  plain('T-Online, in German', 'bounce', ['jane@t-online.de', 'bad_mailbox', true], {
    from: 'Mail Delivery System <Mailer-Daemon@t-online.de>',
    subject: 'Unzustellbare Nachricht',
    text: `
Die folgende Nachricht konnte nicht zugestellt werden:

  jane@t-online.de
    Empfänger unbekannt

Bitte prüfen Sie die Adresse.
`,
  }),
  plain('Orange, in French', 'bounce', ['jane@orange.fr', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@orange.fr',
    subject: 'Échec de la remise du courrier',
    text: `
Le message n'a pas pu être remis au destinataire suivant :

<jane@orange.fr>:
550 5.1.1 Adresse d au moins un destinataire invalide. Invalid recipient. OFR204_418 [418]
`,
  }),
  plain('Terra, in Spanish', 'bounce', ['jane@terra.es', 'mailbox_full', true], {
    from: 'Sistema de correo <postmaster@terra.es>',
    subject: 'No se ha podido entregar el mensaje',
    text: `
Su mensaje no pudo ser entregado a:

jane@terra.es: el buzón del usuario está lleno
`,
  }),
  plain('UOL, in Portuguese', 'bounce', ['jane@uol.com.br', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@uol.com.br',
    subject: 'Mensagem não entregue',
    text: `
A sua mensagem não pôde ser entregue ao seguinte destinatário:

jane@uol.com.br
   Usuário inexistente
`,
  }),
  plain('Libero, in Italian', 'bounce', ['jane@libero.it', 'mailbox_full', true], {
    from: 'postmaster@libero.it',
    subject: 'Mancato recapito: Il tuo ordine',
    text: `
Il messaggio non è stato recapitato a:

jane@libero.it
La casella di posta del destinatario è piena.
`,
  }),
  plain('Mail.ru, in Russian', 'bounce', ['jane@mail.ru', 'bad_mailbox', true], {
    from: 'mailer-daemon@corp.mail.ru',
    subject: 'Ваше сообщение не доставлено',
    text: `
Это письмо создано автоматически сервером Mail.Ru.

К сожалению, ваше письмо не может быть доставлено одному или нескольким получателям:

jane@mail.ru
550 Message was not accepted -- invalid mailbox. Local mailbox jane@mail.ru is unavailable: user not found

------ Это копия вашего сообщения ------
`,
  }),
  plain('Yandex, in Russian', 'bounce', ['jane@yandex.ru', 'mailbox_full', true], {
    from: 'mailer-daemon@yandex.ru',
    subject: 'Недоставленное сообщение',
    text: `
Пожалуйста, не отвечайте на это сообщение.

Ваше сообщение не было доставлено:

<jane@yandex.ru>: host mx.yandex.ru[192.0.2.9] said: 552 5.2.2 Mailbox size limit exceeded
`,
  }),
  plain('QQ, in Chinese', 'bounce', ['jane@qq.com', 'bad_mailbox', true], {
    from: 'PostMaster@qq.com',
    subject: '系统退信/Systems bounce',
    text: `
很抱歉您发送的邮件被退回，以下是该邮件的相关信息：

收件人：jane@qq.com
退信原因：收件人邮件地址（jane@qq.com）不存在，邮件无法送达。
host mx3.qq.com[192.0.2.9] said: 550 Mailbox not found. http://service.mail.qq.com/cgi-bin/help?subtype=1
`,
  }),
  plain('163, in Chinese and GB 18030', 'bounce', ['jane@163.com', 'bad_mailbox', true], {
    from: 'Postmaster@163.com',
    subject: '=?gb18030?B?z7XNs83L0MU=?=',
    charset: 'gb18030',
    text: '',
    // 抱歉，您的邮件被退回来了…… 收件人: jane@163.com 用户不存在
    octets: Buffer.concat([
      Buffer.from('b1a7c7b8a3acc4fab5c4d3cabcfeb1bbcdcbbbd8c0b4c1cb0d0a0d0a', 'hex'),
      Buffer.from('jane@163.com\r\n  550 User not found: jane@163.com\r\n'),
      Buffer.from('d3c3bba7b2bbb4e6d4da0d0a', 'hex'),
    ]),
  }),
  plain('docomo, in Japanese', 'bounce', ['jane@docomo.ne.jp', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@docomo.ne.jp',
    subject: 'エラーメール：配信不能',
    text: `
次のアドレスへメールを配信できませんでした。

<jane@docomo.ne.jp>:
550 Unknown user jane@docomo.ne.jp
`,
  }),
  plain('Naver, in Korean', 'bounce', ['jane@naver.com', 'bad_mailbox', true], {
    from: 'postmaster@naver.com',
    subject: '메일 전송 실패 알림',
    text: `
메일을 보내지 못했습니다.

받는사람: jane@naver.com
550 5.1.1 존재하지 않는 사용자입니다
`,
  }),
  raw(
    'Barracuda: nothing but HTML',
    'bounce',
    ['jane@example.com', 'bad_mailbox', true],
    `From: Mail Delivery <postmaster@barracuda.example.com>
Subject: **Message you sent blocked by our bulk email filter**: Undeliverable
Content-Type: text/html; charset=utf-8

<html><head><style>td { color: red }</style><title>Undeliverable</title></head><body>
<p>Your message could not be delivered to:</p><p>&lt;jane@example.com&gt;</p>
<p>550 5.1.1 No such user (jane@example.com)</p></body></html>
`,
  ),
  report('Mimecast: policy', 'bounce', ['jane@example.com', 'policy', true], {
    from: 'Postmaster <postmaster@example.com>',
    subject: '[Postmaster] Email Delivery Failure',
    text: 'This is a delivery failure notification message.\n',
    fields: `Final-Recipient: RFC822; jane@example.com
Action: failed
Status: 5.0.0
Diagnostic-Code: SMTP; 550 Administrative prohibition - envelope blocked - https://community.mimecast.com/docs/DOC-1369#550`,
  }),
  report('iCloud: a full mailbox', 'bounce', ['jane@icloud.com', 'mailbox_full', true], {
    subject: 'Undelivered Mail Returned to Sender',
    text: '<jane@icloud.com>: host mx01.mail.icloud.com said: 552 5.2.2 user is over quota\n',
    fields: `Final-Recipient: rfc822; jane@icloud.com
Action: failed
Status: 5.2.2
Diagnostic-Code: smtp; 552 5.2.2 <jane@icloud.com>: user is over quota`,
  }),
  report('a DMARC refusal', 'bounce', ['jane@gmail.com', 'authentication', true], {
    text: 'failed\n',
    fields: `Final-Recipient: rfc822; jane@gmail.com
Action: failed
Status: 5.7.26
Diagnostic-Code: smtp; 550-5.7.26 Unauthenticated email from sender.test is not accepted due to
    550-5.7.26 domain's DMARC policy. Please contact the administrator of
    550 5.7.26 sender.test domain`,
  }),
];
