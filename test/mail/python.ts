import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/** A message as Python's `email` package reads it: an implementation that shares nothing with ours or nodemailer's. */
export interface Reading {
  defects: string[];
  names: string[];
  headers: Record<string, string>;
  addresses: Record<string, { name: string; address: string }[]>;
  parts: Part[];
  tree: string[];
}

export interface Part {
  type: string;
  disposition: string | null;
  filename: string | null;
  cid: string | null;
  encoding: string | null;
  content: Buffer;
}

/** Reads messages in base64, one per line, and writes a line of JSON for each. */
export const program = `
import sys, json, base64, email, email.policy, email.header, email.utils
# Names are decoded by the older parser: the newer one of some versions keeps the space between two encoded-words of a phrase.
def names(value):
    return [{'name': str(email.header.make_header(email.header.decode_header(name))), 'address': address}
        for name, address in email.utils.getaddresses([value]) if address]
# Not get_filename, which takes quotes and angle brackets off a name that was already unquoted.
def filename(part):
    disposition = part['content-disposition']
    return disposition and disposition.params.get('filename')
policy = email.policy.SMTPUTF8
for line in sys.stdin:
    raw = base64.b64decode(line)
    m = email.message_from_bytes(raw, policy=policy)
    old = email.message_from_bytes(raw)
    defects = [repr(d) for p in m.walk() for d in p.defects]
    headers, addresses, parts = {}, {}, []
    for name, value in m.items():
        headers[name] = str(value)
        if hasattr(value, 'addresses'):
            plain = isinstance(old[name], str) and old[name].isascii()
            addresses[name] = names(old[name]) if plain else [{'name': a.display_name, 'address': a.addr_spec.encode('utf-8', 'surrogateescape').decode()} for a in value.addresses]
    for p in m.walk():
        if p.is_multipart() and p.get_content_maintype() == 'multipart': continue
        if p.get_content_type() == 'message/rfc822':
            content = p.get_payload(0).as_bytes()
        else:
            content = p.get_payload(decode=True) or b''
        parts.append({'type': p.get_content_type(), 'disposition': p.get_content_disposition(), 'filename': filename(p),
            'cid': p['content-id'] and str(p['content-id']), 'encoding': p['content-transfer-encoding'] and str(p['content-transfer-encoding']),
            'content': base64.b64encode(content).decode()})
        if p.get_content_type() == 'message/rfc822': break
    print(json.dumps({'defects': defects, 'names': list(m.keys()), 'headers': headers, 'addresses': addresses, 'parts': parts,
        'tree': [p.get_content_type() for p in m.walk()]}))
`;

/** The system's own if there is one: what comes before it in the path may be a script that starts twenty programs to choose one. */
const systems = '/usr/bin/python3';
export const python = existsSync(systems) ? systems : 'python3';

/** False on a machine without Python 3: the tests that need it say so and are skipped. */
export const hasPython = spawnSync(python, ['-c', 'import email.policy']).status === 0;

/** Reads all of these in one process. */
export function readAll(messages: Buffer[]): Reading[] {
  const input = messages.map((message) => message.toString('base64')).join('\n');
  const run = spawnSync(python, ['-c', program], { input, maxBuffer: 1 << 28 });
  if (run.status !== 0) throw new Error(`${python}: ${run.stderr}`);
  const lines = run.stdout.toString('utf8').trimEnd().split('\n');
  return lines.map(toReading);
}

/** One line of the program's output. */
export function toReading(line: string): Reading {
  const reading = JSON.parse(line) as Reading;
  for (const part of reading.parts) part.content = Buffer.from(String(part.content), 'base64');
  return reading;
}
