import type { MessageAttachment } from '../compose/attachments.ts';
import { decodeTransfer } from '../encoding/transfer-encoding.ts';
import { MimeError } from '../text/mime-error.ts';
import { leavesOf, type MimePart, type MimeTree } from './mime.ts';
import { amongAlternatives, type Bodies, inSequence } from './submitted-bodies.ts';
import { type SubmittedFile, withFiles } from './submitted-files.ts';
import { decodeText } from './text-part.ts';

/** What a submitted message holds, decoded. */
export interface SubmittedContent {
  html: string | null;
  text: string | null;
  attachments: MessageAttachment[];
}

/**
 * The bodies and the files of a message. Every part that is not a body, or part of one, is a file.
 *
 * @throws {MimeError} that names the part
 */
export async function readContent(tree: MimeTree): Promise<SubmittedContent> {
  const reader = new ContentReader(leavesOf(tree));
  const { html, text } = await reader.read(tree, false);
  return { text: text || null, ...withFiles(html || null, reader.files) };
}

class ContentReader {
  readonly files: SubmittedFile[] = [];
  readonly #leaves: MimePart[];

  constructor(leaves: MimePart[]) {
    this.#leaves = leaves;
  }

  /** @param followsBody whether a body comes before it, to which it may be a file */
  async read(node: MimeTree, followsBody: boolean): Promise<Bodies> {
    if (!('parts' in node)) return this.#readLeaf(node, followsBody);
    return node.isAlternative ? this.#readAlternatives(node.parts) : this.#readSequence(node.parts, followsBody);
  }

  /** An alternative stands for the others, and follows none of them. */
  async #readAlternatives(parts: MimeTree[]): Promise<Bodies> {
    const forMany = parts.filter((part) => !isForFew(part));
    const bodies: Bodies[] = [];
    for (const part of forMany.length > 0 ? forMany : parts) bodies.push(await this.read(part, false));
    return amongAlternatives(bodies);
  }

  async #readSequence(parts: MimeTree[], followsBody: boolean): Promise<Bodies> {
    const bodies: Bodies[] = [];
    for (const part of parts)
      bodies.push(await this.read(part, followsBody || bodies.some(({ html, text }) => (html ?? text) !== null)));
    return inSequence(bodies);
  }

  async #readLeaf(part: MimePart, followsBody: boolean): Promise<Bodies> {
    try {
      const content = await decodeTransfer(part.body, part.encoding);
      const kind = bodyKind(part, followsBody);
      if (kind !== null) return { html: null, text: null, [kind]: this.#textOf(part, content) };
      this.files.push({ part, content });
      return { html: null, text: null };
    } catch (error) {
      if (!(error instanceof MimeError)) throw error;
      const number = this.#leaves.indexOf(part) + 1;
      throw new MimeError(`part ${number} (${part.type.value.slice(0, 60)}) ${error.message}`);
    }
  }

  #textOf(part: MimePart, content: Buffer): string {
    const text = decodeText(content, part.type);
    // The line end before the final dot is not the author's, nor is one before a boundary that the client counts as text.
    return this.#leaves.length === 1 && part.encoding !== 'base64' ? text.replace(/\n$/, '') : text;
  }
}

/** AMP, and HTML for watches: other programs would show it as a file, and those that know it have another alternative. */
const isForFew = (node: MimeTree) =>
  !('parts' in node) &&
  node.disposition?.value !== 'attachment' &&
  /^text\/(?:x-amp|watch)-html$/.test(node.type.value);

/** Which body this part is, null for a file. A named text is a file only after a body, because some clients name all parts. */
function bodyKind({ type, disposition }: MimePart, followsBody: boolean): 'html' | 'text' | null {
  const name = disposition?.parameters.get('filename') || type.parameters.get('name');
  if (disposition?.value === 'attachment' || (name && followsBody)) return null;
  if (type.value === 'text/html') return 'html';
  return type.value === 'text/plain' ? 'text' : null;
}
