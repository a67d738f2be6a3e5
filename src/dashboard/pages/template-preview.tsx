import { Alert, Button, Group, Tabs, TextInput } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import type { Template } from '../../client/index.ts';
import { api, wordsOf } from '../api.ts';
import { whatBecame } from '../format.ts';
import { useAction } from '../parts/action.tsx';
import { Form, TextField } from '../parts/form.tsx';
import { Panel } from '../parts/page.tsx';
import { PlainText, Preview } from '../parts/preview.tsx';
import { useSession } from '../session.ts';

type Values = Record<string, string | number | null>;

/** Shows the email that these values give, and sends it as a test. */
export function TemplatePreview({ template, isChanged }: { template: Template; isChanged: boolean }) {
  const [typed, setTyped] = useState<Record<string, string>>({});
  const values: Values = Object.fromEntries(
    template.variables.flatMap(({ key, type }) => {
      const value = typed[key];
      if (value === undefined || value === '') return [];
      return [[key, type === 'number' ? Number(value) : value]];
    }),
  );
  const missing = template.variables.filter(
    ({ key, fallback_value: fallback }) => fallback === null && !Object.hasOwn(values, key),
  );
  const { data, error } = useQuery({
    queryKey: ['templates', 'rendered', template.id, template.updated_at, values],
    queryFn: () => api.templates.render(template.id, { variables: values, version: 'draft' }),
    placeholderData: keepPreviousData,
    enabled: missing.length === 0,
  });
  return (
    <div>
      <Panel title={isChanged ? 'Preview of the saved draft' : 'Preview'}>
        {template.variables.length > 0 && (
          <Group className="body" gap={8}>
            {template.variables.map(({ key, fallback_value: fallback }) => (
              <TextInput
                key={key}
                label={key}
                w={160}
                placeholder={fallback === null ? 'needed' : String(fallback)}
                value={typed[key] ?? ''}
                onChange={({ currentTarget }) => setTyped({ ...typed, [key]: currentTarget.value })}
              />
            ))}
          </Group>
        )}
        {missing.length > 0 && (
          <div className="body dim">
            Enter a value for {missing.map(({ key }) => key).join(', ')} to see the preview.
          </div>
        )}
        {missing.length === 0 && error && (
          <Alert color="orange" variant="light" m={14} p="xs">
            {wordsOf(error)}
          </Alert>
        )}
        {missing.length === 0 && data && !error && (
          <>
            <dl className="facts" style={{ padding: '4px 14px 12px' }}>
              <dt>From</dt>
              <dd>{data.from ?? <span className="dim">set by the email</span>}</dd>
              <dt>Subject</dt>
              <dd>{data.subject ?? <span className="dim">set by the email</span>}</dd>
            </dl>
            <Tabs defaultValue="html" keepMounted={false}>
              <Tabs.List pl={14}>
                <Tabs.Tab value="html">HTML</Tabs.Tab>
                <Tabs.Tab value="text">Text</Tabs.Tab>
              </Tabs.List>
              <Tabs.Panel value="html">
                <Preview html={data.html ?? ''} title="The email as its reader sees it" />
              </Tabs.Panel>
              <Tabs.Panel value="text">
                <PlainText text={data.text ?? 'None: it is generated from the HTML.'} />
              </Tabs.Panel>
            </Tabs>
          </>
        )}
      </Panel>
      <SendOne template={template} values={values} />
    </div>
  );
}

function SendOne({ template, values }: { template: Template; values: Values }) {
  const { service } = useSession();
  const [, navigate] = useLocation();
  const domains = useQuery({ queryKey: ['domains'], queryFn: () => api.domains.list() });
  const from = domains.data?.domains.find(({ status }) => status === 'verified')?.domain;
  const send = useAction(
    (to: string) =>
      api.emails.send({
        to,
        ...(template.from ? {} : { from: `hello@${from}` }),
        ...(template.subject ? {} : { subject: template.name }),
        template: { id: template.id, variables: values },
      }),
    ({ email }) => whatBecame(email, service.on_hold_since !== null),
    ({ email }) => navigate(`/emails/${email.id}`),
  );
  const isReady = template.status === 'published' && (template.from !== null || from !== undefined);
  return (
    <Panel title="Send a test">
      <Form className="body" action={send} submit={(fields) => send.mutate(String(fields.get('to')).trim())}>
        <Group gap={8}>
          <TextField
            name="to"
            aria-label="Send to"
            w={240}
            placeholder="you@example.com"
            defaultValue={service.sandbox ? 'you@anywhere.test' : ''}
            required
          />
          <Button type="submit" disabled={!isReady} loading={send.isPending}>
            Send the published version
          </Button>
        </Group>
        {template.status === 'draft' && (
          <div className="dim" style={{ fontSize: 12.5, marginTop: 6 }}>
            Publish it first: only the published version is sent.
          </div>
        )}
      </Form>
    </Panel>
  );
}
