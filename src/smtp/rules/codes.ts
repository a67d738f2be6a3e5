import { beforeMail, type Phase } from '../replies/result.ts';
import { aboutRecipient, type Rule } from './rule.ts';

const atMail: readonly Phase[] = ['mail'];
const atMessage: readonly Phase[] = ['data', 'dot'];

/** The fallback for unknown words, or a language that no rule reads: the enhanced code, then the code. */
export const codes: Rule[] = [
  {
    when: aboutRecipient,
    enhanced: ['1.1', '1.3', '1.6', '2.1'],
    is: 'bad_mailbox',
    note: 'RFC 3463: no such mailbox, not an address, moved, disabled.',
    samples: [
      'Naver: 550 5.1.1 존재하지 않는 사용자입니다',
      'Postfix: 501 5.1.3 Bad recipient syntax',
      'Any: 551 5.1.6 Moved without a trace',
      'Any: 550 5.2.1 ปิดใช้งานแล้ว',
      'Any: 450 4.1.1 not yet here',
    ],
  },
  { enhanced: ['5.3'], is: 'rate', tooMany: true, samples: ['Any: 452 4.5.3 คน'] },
  {
    enhanced: ['2.3', '3.3', '3.4', '6.x', '1.20'],
    is: 'content',
    samples: ['Any: 552 5.2.3 ขนาด', 'Any: 552 5.3.4 크기', 'Any: 554 5.6.0 malformed', 'Any: 550 5.6.7 SMTPUTF8'],
  },
  {
    when: atMail,
    enhanced: ['1.x', '2.x'],
    is: 'sender',
    note: 'Before RCPT TO the only address is our own.',
    samples: ['Any: 550 5.1.1 no such user', 'Any: 550 5.2.1 отключено'],
  },
  { enhanced: ['7.10'], is: 'policy', wantsTls: true, samples: ['Any: 550 5.7.10 암호화'] },
  {
    enhanced: ['7.x'],
    is: 'policy',
    samples: ['Naver: 554 5.7.1 수신이 거부되었습니다', 'Any: 451 4.7.1 ลองใหม่', 'Any: 550 5.7.999 x'],
  },
  {
    enhanced: ['3.x', '4.x'],
    is: 'network',
    note: 'The receiving system, or the route to it.',
    samples: ['Any: 451 4.3.0 문제', 'Any: 451 4.4.2 문제', 'Any: 550 5.4.4 경로'],
  },
  {
    enhanced: ['5.1', '5.2', '5.4', '5.5', '5.6'],
    is: 'protocol',
    samples: ['Any: 501 5.5.4 인수', 'Any: 502 5.5.1 명령'],
  },
  { codes: [530, 535, 538, 541], is: 'policy', samples: ['Any: 530 인증', 'Zoho: 541 5.0.0 거부'] },
  {
    codes: [500, 501, 502, 503, 504, 555],
    is: 'protocol',
    samples: ['Any: 501 문법', 'Any: 503 순서', 'Any: 500 ?'],
  },
  {
    when: beforeMail,
    codes: ['5xx'],
    is: 'policy',
    note: 'A refusal before MAIL FROM is about the client, whatever the text.',
    samples: [
      'Postfix: 554 mx.example.com ESMTP not accepting messages',
      'Exim: 554 No SMTP service here',
      'RFC 7504: 521 mx.example.com does not accept mail',
      'Sendmail: 550 5.1.1 No such user',
    ],
  },
  { codes: [421], is: 'network', samples: ['Any: 421 나중에'] },
  { when: beforeMail, codes: ['4xx'], is: 'network', samples: ['Any: 450 나중에'] },
  { codes: [451, 454], is: 'network', note: 'RFC 5321: local error in processing.', samples: ['Any: 451 문제'] },
  { when: [...atMail, ...atMessage], codes: [552], is: 'content', note: 'RFC 1870.', samples: ['Any: 552 크기'] },
  { when: atMail, codes: ['4xx'], is: 'network', samples: ['Any: 452 공간 부족', 'Any: 450 임시'] },
  { when: atMail, codes: ['5xx'], is: 'sender', samples: ['Any: 550 거부', 'Any: 553 주소'] },
  { when: ['rcpt'], codes: [452, 552], is: 'mailbox_full', samples: ['Any: 452 공간', 'Any: 552 공간'] },
  {
    when: aboutRecipient,
    codes: [556],
    is: 'bad_domain',
    note: 'RFC 7504.',
    samples: ['RFC 7504: 556 Domain does not accept mail', 'Any: 556 도메인'],
  },
  {
    when: atMessage,
    codes: [554],
    is: 'content',
    note: 'A refusal of the message itself is about its content.',
    samples: ['Any: 554 거부'],
  },
  {
    is: 'other',
    note: 'A 550 whose text no rule knows may not be about the mailbox.',
    samples: ['Any: 550 알 수 없음', 'Any: 553 no'],
  },
];
