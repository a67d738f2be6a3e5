import { Tabs } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { api, isStatus, wordsOf } from '../../data/api.ts';
import { Empty } from '../../parts/empty.tsx';
import { Failed, Waiting } from '../../parts/failure.tsx';
import { Panel } from '../../parts/page.tsx';
import { PlainText, Preview } from '../../parts/preview.tsx';
import { bytes } from '../../words/format.ts';

export function EmailContentPanel({ id }: { id: string }) {
  const query = useQuery({
    queryKey: ['content', id],
    queryFn: () => api.emails.content(id),
    staleTime: Number.POSITIVE_INFINITY,
  });
  const { data, error } = query;
  const headers = data?.headers.map(({ name, value }) => `${name}: ${value}`).join('\n');
  const hasTextTab = Boolean(data?.text || !data?.html);
  return (
    <Panel title="Content">
      {error &&
        (isStatus(error, 410) ? (
          <Empty title="The content is no longer kept" words={wordsOf(error)} />
        ) : (
          <Failed query={query} />
        ))}
      {!data && !error && (
        <div className="body">
          <Waiting />
        </div>
      )}
      {data && (
        <Tabs defaultValue={data.html ? 'html' : 'text'} keepMounted={false}>
          <Tabs.List pl={14}>
            {data.html && <Tabs.Tab value="html">Preview</Tabs.Tab>}
            {hasTextTab && <Tabs.Tab value="text">Text</Tabs.Tab>}
            {data.html && <Tabs.Tab value="source">HTML</Tabs.Tab>}
            {headers && <Tabs.Tab value="headers">Headers</Tabs.Tab>}
            {data.attachments.length > 0 && <Tabs.Tab value="files">Files ({data.attachments.length})</Tabs.Tab>}
          </Tabs.List>
          {data.html && (
            <>
              <Tabs.Panel value="html">
                <Preview html={data.html} title="The email as its reader sees it" />
              </Tabs.Panel>
              <Tabs.Panel value="source">
                <PlainText text={data.html} />
              </Tabs.Panel>
            </>
          )}
          {hasTextTab && (
            <Tabs.Panel value="text">
              <PlainText text={data.text || 'This email has no text.'} />
            </Tabs.Panel>
          )}
          {headers && (
            <Tabs.Panel value="headers">
              <PlainText text={headers} />
            </Tabs.Panel>
          )}
          <Tabs.Panel value="files">
            {data.attachments.map(({ filename, content_type: type, content_id: inline, size }) => (
              <div className="recipient" key={`${filename} ${inline} ${size}`}>
                <span className="wrap-anywhere">{filename}</span>{' '}
                <span className="dim">
                  {type} · {bytes(size)}
                  {inline && ` · in the html as cid:${inline}`}
                </span>
              </div>
            ))}
          </Tabs.Panel>
        </Tabs>
      )}
    </Panel>
  );
}
