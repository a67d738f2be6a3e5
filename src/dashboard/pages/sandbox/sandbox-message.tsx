import { Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import type { Email as Parsed } from 'postal-mime';
import PostalMime from 'postal-mime';
import { Link } from 'wouter';
import type { SandboxMessage } from '../../../client/index.ts';
import { api, isUnshown } from '../../data/api.ts';
import { Copy } from '../../parts/copy.tsx';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PlainText, Preview } from '../../parts/preview.tsx';
import { Status } from '../../parts/status.tsx';
import { bytes, shownSubject } from '../../words/format.ts';
import { inOwnLetters } from '../../words/own-letters.ts';

/** A message as it arrived: what its reader sees, its header, its source, and the verdict on its signature. */
export function SandboxMessageView({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['sandbox', 'message', id],
    queryFn: async () => {
      const { message } = await api.sandbox.get(id);
      const parsed = await PostalMime.parse(message.raw, { maxNestingDepth: 30, attachmentEncoding: 'base64' }).catch(
        () => null,
      );
      return { message, parsed };
    },
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { data } = query;
  if (isUnshown(query)) return <Failed query={query} isBelow={false} />;
  if (!data) {
    return (
      <div style={{ padding: 14 }}>
        <Waiting />
      </div>
    );
  }
  const { message, parsed } = data;
  const html = parsed?.html ?? null;
  return (
    <div>
      <dl className="facts" style={{ padding: 14 }}>
        <dt>Subject</dt>
        <dd dir="auto">{shownSubject(message.subject)}</dd>
        <dt>From</dt>
        <dd title={message.from}>{inOwnLetters(message.from)}</dd>
        <dt>To</dt>
        <dd title={message.rcpt_to.join(', ')}>{inOwnLetters(message.rcpt_to.join(', '))}</dd>
        <dt>Signature</dt>
        <dd>
          <Signatures message={message} />
        </dd>
        <dt>Connection</dt>
        <dd>
          {message.tls_version ?? 'in clear'} · {bytes(message.size)} · <Moment at={message.received_at} />
          {message.email_id && (
            <>
              {' · '}
              <Link href={`/emails/${message.email_id}`} className="link">
                the email in the log
              </Link>
            </>
          )}
        </dd>
      </dl>
      <Tabs defaultValue={html ? 'html' : 'text'} keepMounted={false}>
        <Tabs.List pl={14}>
          {html && <Tabs.Tab value="html">Preview</Tabs.Tab>}
          <Tabs.Tab value="text">Text</Tabs.Tab>
          <Tabs.Tab value="headers">Header</Tabs.Tab>
          <Tabs.Tab value="source">Source</Tabs.Tab>
        </Tabs.List>
        {html && (
          <Tabs.Panel value="html">
            <Preview html={html} images={inlineImages(parsed)} title="The message as its reader sees it" />
          </Tabs.Panel>
        )}
        <Tabs.Panel value="text">
          <PlainText text={parsed?.text || 'This message has no text.'} />
        </Tabs.Panel>
        <Tabs.Panel value="headers">
          <PlainText text={message.raw.split(/\r?\n\r?\n/, 1)[0] ?? ''} />
        </Tabs.Panel>
        <Tabs.Panel value="source">
          <div style={{ float: 'right', padding: 8 }}>
            <Copy text={message.raw} what="the source" />
          </div>
          <PlainText text={message.raw} />
        </Tabs.Panel>
      </Tabs>
    </div>
  );
}

function Signatures({ message }: { message: SandboxMessage }) {
  if (message.dkim.length === 0) return <span className="dim">not signed</span>;
  return message.dkim.map(({ domain, selector, result, info }) => (
    <span key={selector} title={info}>
      <Status value={result} tone={result === 'pass' ? 'good' : 'bad'} /> DKIM of {inOwnLetters(domain)}{' '}
      <span className="dim">({selector})</span>{' '}
    </span>
  ));
}

/** The images attached to the message, as data URLs. */
function inlineImages(parsed: Parsed | null): Map<string, string> {
  const images = (parsed?.attachments ?? []).filter(
    ({ contentId, mimeType }) => contentId && /^image\/(png|jpeg|gif|webp)$/.test(mimeType),
  );
  return new Map(
    images.map(({ contentId = '', mimeType, content }) => [
      contentId.replaceAll(/^<|>$/g, ''),
      `data:${mimeType};base64,${String(content)}`,
    ]),
  );
}
