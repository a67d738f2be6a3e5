import type { Rule } from './rule.ts';

/** What is wrong with the receiving server, or with the conversation. */
export const server: Rule[] = [
  {
    text: /disk full|queue (file|error|is full)|internal (server |system )?error|local (error|problem|configuration error)|(temporary|transient|unexpected|unknown) (\w{1,12} ){0,2}(error|failure|problem)|temporarily (unavailable|deferred|unable|out of)|(server|service|system) (is )?(\w{1,12} ){0,2}(unavailable|not available|down|not ready|shutting down|maintenance|error|configuration)|shutting down|shutdown|closing (transmission|connection|channel|link)|time(d)? ?-?out|unable to (connect|contact|reach|accept|process|deliver|look)|connection (lost|dropped|reset|timed)|no answer from|backend|unreachable|mailstore|try again|please retry|erreur (interne|temporaire)|service (temporairement )?indisponible|voruber ?gehend|derzeit nicht|временн|error en el servidor/,
    codes: ['4xx'],
    is: 'network',
    samples: [
      'Postfix: 451 4.3.0 <jane@example.com>: Temporary lookup failure',
      'Postfix: 421 4.4.2 mx.example.com Error: timeout exceeded',
      'RFC 5321: 421 mx.example.com Service not available, closing transmission channel',
      'RFC 5321: 451 Requested action aborted: local error in processing',
      'Exchange: 421 4.3.2 Service not available, closing transmission channel',
      'Exchange Online: 451 4.4.0 Temporary server error. Please try again later. ATTR5 [AM6EUR05FT003.eop-eur05.prod.protection.outlook.com]',
      'Yahoo: 451 4.3.2 Internal error reading data',
      'Yahoo: 451 Resources temporarily unavailable. Please try again later [#4.16.5].',
      'Exim: 451 Temporary local problem - please try later',
      'qmail: 451 qq temporary problem (#4.3.0)',
      'Gmail: 421 4.3.0 Temporary System Problem. Try again later (10).',
      'Cisco IronPort: 451 #4.7.1 Unable to process this message at the moment, internal error',
      'Orange: 421 Service temporairement indisponible',
      'Amazon SES: 451 4.4.2 Timeout waiting for data from client.',
    ],
  },
  {
    text: /(bad|invalid) (sequence|command|syntax)|out of sequence|syntax error|(command|parameter|argument)s? (\w{1,12} ){0,2}(not implemented|unrecogni[sz]ed|unknown|not recogni[sz]ed|not supported)|(unrecogni[sz]ed|unknown|unimplemented) (command|parameter|option)|nested mail|need (mail|rcpt|recipient)|no (valid )?recipients|(must|send) (issue |have )?(helo|ehlo|mail|rcpt)\b|protocol (error|violation)|pipelining|improper command/,
    is: 'protocol',
    samples: [
      'RFC 5321: 503 Bad sequence of commands',
      'Exim: 503 sender not yet given, bad sequence of commands',
      'Postfix: 503 5.5.1 Error: need MAIL command',
      'Postfix: 554 5.5.1 Error: no valid recipients',
      'Exchange: 500 5.3.3 Unrecognized command',
      'Sendmail: 503 5.0.0 Need RCPT (recipient)',
      'Exim: 554 SMTP synchronization error, improper command pipelining',
      'RFC 5321: 555 MAIL FROM/RCPT TO parameters not recognized or not implemented',
    ],
  },
];
