import fc from 'fast-check';
import PostalMime, { decodeWords } from 'postal-mime';
import type { MessageParts } from '../../src/mail/compose/compose.ts';
import { readSubmission } from '../../src/mail/submission/submission.ts';
import { composed } from '../mail/parts.ts';
import { hasPython } from '../mail/python.ts';
import { anyMessage, arrived } from './messages.ts';
import { Python } from './python.ts';
import type { Target } from './target.ts';
import { equal, hold } from './texts.ts';

/** The last line of a part may have gained a line end, which a text needs and a file must not have. */
const withoutEnd = (text: string) => text.replace(/\r\n$/, '');

/** Files that a page refers to are next to it, before the others. */
const inOrder = (files: [name: string, content: string][]) => files.map((file) => JSON.stringify(file)).sort();

/** The same message as each reader sees it. */
const said = ({ subject, to, cc, text, html, attachments }: MessageParts) => ({
  subject,
  to: to.map(({ name, address }) => [name ?? '', address]),
  cc: cc.map(({ name, address }) => [name ?? '', address]),
  texts: [text, html].flatMap((one) => (one === null ? [] : [withoutEnd(arrived(one))])),
  files: inOrder(attachments.map(({ filename, content }) => [filename, content.toString('latin1')])),
});

/** postal-mime differs on the number of empty lines at the end of a text. */
const withoutEnds = (text: string) => text.replace(/(?:\r\n)+$/, '');

/** A text that is nothing but empty lines counts as none. */
const withoutEmpty = ({ texts, ...rest }: ReturnType<typeof said>) => ({
  ...rest,
  texts: texts.map(withoutEnds).filter(Boolean),
});

async function byPostalMime(bytes: Buffer, { text, html }: MessageParts): Promise<ReturnType<typeof said>> {
  const read = await new PostalMime({ attachmentEncoding: 'arraybuffer' }).parse(bytes);
  const people = (list: typeof read.to = []) => list.map(({ name, address }) => [name, address ?? '']);
  const lines = (one: string) => withoutEnds(one.replaceAll(/\r?\n/g, '\r\n'));
  return {
    subject: read.subject ?? '',
    to: people(read.to),
    cc: people(read.cc),
    texts: [...(text === null ? [] : [lines(read.text ?? '')]), ...(html === null ? [] : [lines(read.html ?? '')])],
    files: inOrder(
      read.attachments.map((one) => [one.filename ?? '', Buffer.from(one.content as ArrayBuffer).toString('latin1')]),
    ),
  };
}

async function byPython(python: Python, bytes: Buffer, texts: number): Promise<ReturnType<typeof said>> {
  const { defects, headers, addresses, parts } = await python.read(bytes);
  equal(defects, []);
  const people = (field: string) => (addresses[field] ?? []).map(({ name, address }) => [name, address]);
  const files = parts.slice(texts);
  return {
    subject: headers.Subject ?? '',
    to: people('To'),
    cc: people('Cc'),
    texts: parts.slice(0, texts).map(({ content }) => withoutEnd(content.toString('utf8'))),
    files: inOrder(files.map(({ filename, content }) => [filename ?? '', content.toString('latin1')])),
  };
}

export const mime: Target = {
  name: 'mime',
  quick: 60,
  open({ closing }) {
    const python = hasPython ? new Python() : null;
    if (python) closing.teardown(() => python.close());
    const theirs = fc.asyncProperty(anyMessage, async (parts) => {
      const bytes = await composed(parts);
      // It decodes encoded-words even in names by RFC 2231.
      const named = parts.attachments.map((one) => ({ ...one, filename: decodeWords(one.filename) }));
      const wanted = said({ ...parts, attachments: named });
      equal(await byPostalMime(bytes, parts), { ...wanted, texts: wanted.texts.map(withoutEnds) });
    });
    const wire = fc.asyncProperty(anyMessage, async (parts) => {
      const bytes = await composed(parts);
      const text = bytes.toString('latin1');
      hold(/^[\x01-\x7f]*$/.test(text), 'has octets that are not text');
      hold(
        text.split('\r\n').every((one) => one.length <= 998 && !/[\r\n]/.test(one)),
        'has invalid lines',
      );
      equal((await composed(parts)).toString('latin1'), text);
    });
    const ours = fc.asyncProperty(anyMessage, async (parts) => {
      // Refused, as no mail may have it.
      fc.pre(![parts.text, parts.html].some((text) => text?.includes('\0')));
      // Of other names the folders are left out, and what is not a name is replaced.
      const attachments = parts.attachments.map((one, at) => ({ ...one, filename: `${at} 字.bin` }));
      const written = { ...parts, attachments };
      const read = await readSubmission(await composed(written));
      equal(withoutEmpty(said({ ...parts, ...read })), withoutEmpty(said(written)));
    });
    const promises = {
      'postal-mime reads what was written': theirs,
      'it is 7-bit text in short lines, and the same each time': wire,
      'what a client submits is read as it wrote it': ours,
    };
    if (!python) return promises;
    return {
      ...promises,
      "Python's email package reads what was written, and finds no defect": fc.asyncProperty(
        anyMessage,
        async (parts) => {
          const texts = (parts.text === null ? 0 : 1) + (parts.html === null ? 0 : 1);
          equal(await byPython(python, await composed(parts), texts), said(parts));
        },
      ),
    };
  },
};
