import { type Reply, ReplyParser } from '../../src/smtp/replies/reply.ts';

/** A reply as it was read from the wire, from a log, where the lines of one reply may be joined by spaces. */
export function replyOf(line: string): Reply {
  const [parsed] = new ReplyParser().feed(Buffer.from(`${line.replace(/^(\d{3})-/, '$1 ')}\r\n`));
  if (!parsed) throw new Error(`not a reply: ${line}`);
  return parsed.reply;
}

/** A rule's sample, `<whose server>: <reply>`. */
export function sampleReply(sample: string): Reply {
  return replyOf(sample.slice(sample.indexOf(': ') + 2));
}
