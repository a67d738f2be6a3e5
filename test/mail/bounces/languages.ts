import { type Bounce, plain } from './build.ts';

/** Texts in languages other than English. */
export const languages: Bounce[] = [
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
  plain('Zimbra in Spanish', 'bounce', ['jane@example.com', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@zimbra.example.com (Mail Delivery System)',
    subject: 'Correo no entregado, devuelto al remitente',
    text: `
No se pudo entregar su mensaje a los siguientes destinatarios:

<jane@example.com>: el usuario no existe
`,
  }),
  plain('Polish', 'bounce', ['jane@wp.pl', 'mailbox_full', true], {
    from: 'MAILER-DAEMON@wp.pl',
    subject: 'Niedoręczona wiadomość',
    text: `
Nie udało się dostarczyć wiadomości:

<jane@wp.pl>: 552 Skrzynka odbiorcy jest przepełniona
`,
  }),
  plain('Dutch', 'bounce', ['jane@ziggo.nl', 'bad_mailbox', true], {
    from: 'postmaster@ziggo.nl',
    subject: 'Onbestelbaar: Uw bestelling',
    text: `
Uw bericht kon niet worden afgeleverd bij:

  jane@ziggo.nl
  Gebruiker onbekend
`,
  }),
  plain('Czech', 'bounce', ['jane@seznam.cz', 'bad_mailbox', true], {
    from: 'MAILER-DAEMON@email.seznam.cz',
    subject: 'Zprávu nelze doručit',
    text: `
Vaši zprávu nelze doručit:

<jane@seznam.cz>: 550 5.1.1 Uživatel neexistuje
`,
  }),
  plain('Turkish', 'bounce', ['jane@example.com.tr', 'bad_mailbox', true], {
    from: 'postmaster@example.com.tr',
    subject: 'Teslim edilemedi: Siparişiniz',
    text: `
İletiniz şu alıcıya teslim edilemedi:

jane@example.com.tr
550 5.1.1 Kullanıcı bulunamadı
`,
  }),
];
