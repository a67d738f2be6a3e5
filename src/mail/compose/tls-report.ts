import { createHash } from 'node:crypto';
import { isPublicAddress } from '../../ip.ts';
import { type Mailbox, parseMailbox } from '../address/address.ts';
import { findWireDefect } from '../encoding/wire.ts';
import { writeAddresses, writeField } from '../headers/fields.ts';

/** Sessions that failed in the same way. Fields that are not known are empty. */
export interface ReportedFailure {
  result: string;
  host: string;
  address: string;
  localAddress: string;
  /** In words. */
  reason: string;
  sessions: number;
}

/** The results of one policy on that day. */
export interface ReportedPolicy {
  type: string;
  /** The policy line by line, and the hosts that it names. */
  lines: string[];
  mx: string[];
  successful: number;
  failed: number;
  failures: ReportedFailure[];
}

/** How TLS with a domain's servers went on one day. */
export interface TlsReport {
  /** UTC, as `2026-11-21`. */
  day: string;
  /** In its ASCII form. */
  domain: string;
  /** The address for questions about the report; its domain is the reporting one. */
  contact: string;
  policies: ReportedPolicy[];
}

/** The reporting domain. RFC 8460 section 5.3 requires the contact's domain. */
export const submitterOf = ({ contact }: Pick<TlsReport, 'contact'>): string => parseMailbox(contact).domain;

/** One for each day and domain, so that a recipient can recognize a duplicate. */
const reportId = (report: Omit<TlsReport, 'policies'>): string =>
  `${report.day}.${report.domain}@${submitterOf(report)}`;

/** The report as JSON (RFC 8460 section 4.4). Fields that a policy or a failure does not have are left out. */
export function writeReport(report: TlsReport): string {
  return JSON.stringify({
    'organization-name': submitterOf(report),
    'date-range': { 'start-datetime': `${report.day}T00:00:00Z`, 'end-datetime': `${report.day}T23:59:59Z` },
    'contact-info': report.contact,
    'report-id': reportId(report),
    policies: report.policies.map((policy) => writePolicy(report.domain, policy)),
  });
}

function writePolicy(domain: string, { type, lines, mx, successful, failed, failures }: ReportedPolicy) {
  return {
    policy: {
      'policy-type': type,
      ...(lines.length > 0 ? { 'policy-string': lines } : {}),
      'policy-domain': domain,
      ...(mx.length > 0 ? { 'mx-host': mx } : {}),
    },
    summary: { 'total-successful-session-count': successful, 'total-failure-session-count': failed },
    ...(failures.length > 0 ? { 'failure-details': writeFailures(failures) } : {}),
  };
}

function writeFailures(failures: ReportedFailure[]) {
  const shown = failures.map(({ sessions, ...failure }) => ({
    'result-type': failure.result,
    // Behind a NAT this is an address of our own network, which is nobody else's business.
    ...(isPublicAddress(failure.localAddress) ? { 'sending-mta-ip': failure.localAddress } : {}),
    ...(failure.host ? { 'receiving-mx-hostname': failure.host } : {}),
    ...(failure.address ? { 'receiving-ip': failure.address } : {}),
    'failed-session-count': sessions,
    // Not additional-information, which has to be a URI.
    ...(failure.reason ? { 'failure-reason-code': failure.reason } : {}),
  }));
  const groups = Map.groupBy(shown, (each) => JSON.stringify({ ...each, 'failed-session-count': 0 }));
  return [...groups.values()].map((alike) => ({
    ...alike[0],
    'failed-session-count': alike.reduce((sum, each) => sum + each['failed-session-count'], 0),
  }));
}

/** The file name of a compressed report (RFC 8460 section 5.1). */
export function reportFilename(report: Omit<TlsReport, 'policies'>): string {
  const begin = Date.parse(`${report.day}T00:00:00Z`) / 1_000;
  return `${submitterOf(report)}!${report.domain}!${begin}!${begin + 86_399}.json.gz`;
}

/**
 * The mail that carries a report (RFC 8460 section 5.3), with CRLF line ends and 7-bit, still to be signed. Message-ID and
 * boundary are derived from the report and the recipient, so that a second copy can be recognized.
 *
 * @param packed the report's JSON, gzipped
 */
export function composeReportMail(
  report: Omit<TlsReport, 'policies'>,
  packed: Buffer,
  { to, date }: { to: Mailbox; date: Date },
): Buffer {
  const hash = createHash('sha256')
    .update(`${reportId(report)} ${to.address}`)
    .digest('hex')
    .slice(0, 24);
  // "=_" occurs in neither part.
  const boundary = `=_${hash}`;
  const header = headerOf(report, { to, date, hash, boundary });
  const message = Buffer.from(`${header}\r\n${bodyOf(report, packed, boundary)}`);
  const defect = findWireDefect(message, 0);
  if (defect) throw new Error(`composed a report with ${defect}`);
  return message;
}

function headerOf(
  report: Omit<TlsReport, 'policies'>,
  { to, date, hash, boundary }: { to: Mailbox; date: Date; hash: string; boundary: string },
): string {
  const submitter = submitterOf(report);
  return [
    writeField('Date', [date.toUTCString().replace('GMT', '+0000')]),
    writeAddresses('From', [parseMailbox(report.contact)]),
    writeAddresses('To', [to]),
    writeField('Subject', [
      'Report Domain:',
      report.domain,
      'Submitter:',
      submitter,
      'Report-ID:',
      `<${reportId(report)}>`,
    ]),
    writeField('Message-ID', [`<tls-report.${hash}@${submitter}>`]),
    writeField('TLS-Report-Domain', [report.domain]),
    writeField('TLS-Report-Submitter', [submitter]),
    writeField('Auto-Submitted', ['auto-generated']),
    writeField('MIME-Version', ['1.0']),
    writeField('Content-Type', ['multipart/report;', 'report-type="tlsrpt";', `boundary="${boundary}"`]),
  ].join('');
}

function bodyOf(report: Omit<TlsReport, 'policies'>, packed: Buffer, boundary: string): string {
  return [
    'This is a multipart message in MIME format.',
    `--${boundary}`,
    'Content-Type: text/plain; charset=us-ascii',
    'Content-Transfer-Encoding: 7bit',
    '',
    `This is an aggregate TLS report (RFC 8460) from ${submitterOf(report)}`,
    `about the mail servers of ${report.domain} on ${report.day} (UTC).`,
    '',
    `--${boundary}`,
    'Content-Type: application/tlsrpt+gzip',
    'Content-Transfer-Encoding: base64',
    `Content-Disposition: attachment;\r\n filename="${reportFilename(report)}"`,
    '',
    ...(packed.toString('base64').match(/.{1,76}/g) ?? []),
    `--${boundary}--`,
    '',
  ].join('\r\n');
}
