import { Alert, Button, Group, Tabs, TextInput } from '@mantine/core';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useLocation } from 'wouter';
import type { Template } from '../../../client/index.ts';
import { api, refusalOf, wordsOf } from '../../data/api.ts';
import { useSession } from '../../data/session.ts';
import { useAction } from '../../parts/action.tsx';
import { Form, forget, Refusals, TextField, useRefusals } from '../../parts/form.tsx';
import { Panel } from '../../parts/page.tsx';
import { PlainText, Preview } from '../../parts/preview.tsx';
import { ownAddress } from '../../words/commands.ts';
import { whatBecame } from '../../words/format.ts';
import { asTyped, draftOf, placeholders } from './template-draft.ts';

type Values = Record<string, string | number>;

/** What a sent email has without being asked: its unsubscribe link. */
const links = ['UNSUBSCRIBE_URL', 'RESEND_UNSUBSCRIBE_URL'];

/** What has to be known to see the email: the declared variables, and what else stands in braces. */
function askedOf(template: Template): Template['variables'] {
  const { variables } = template;
  const undeclared = placeholders(draftOf(template)).filter(
    (key) => !variables.some((variable) => variable.key === key),
  );
  return [
    ...variables,
    ...undeclared
      .filter((key) => !links.includes(key))
      .map((key) => ({ key, type: 'string' as const, fallback_value: null })),
  ];
}

/** Shows the email that these values give, and sends it as a test. */
export function TemplatePreview({ template, isChanged }: { template: Template; isChanged: boolean }) {
  const [typed, setTyped] = useState<Record<string, string>>({});
  const asked = askedOf(template);
  const values: Values = Object.fromEntries(
    asked.flatMap((variable) => {
      const value = asTyped(typed[variable.key] ?? '', variable);
      return value === null ? [] : [[variable.key, value]];
    }),
  );
  const missing = asked.filter(({ key, fallback_value: fallback }) => fallback === null && !Object.hasOwn(values, key));
  const { data, error } = useQuery({
    queryKey: ['templates', 'rendered', template.id, template.updated_at, values],
    queryFn: () => api.templates.render(template.id, { variables: values, version: 'draft' }),
    placeholderData: keepPreviousData,
    enabled: missing.length === 0,
  });
  const test = useTest(template, values);
  const isAtField = asked.some(({ key }) => refusalOf(error)?.field === `variables.${key}`);
  return (
    <div>
      <Panel title={isChanged ? 'Preview of the saved draft' : 'Preview'}>
        {asked.length > 0 && (
          <Refusals of={test.send.error ? test.send : { error }}>
            <Group className="body" gap={8} align="flex-start">
              {asked.map((variable) => (
                <ValueField
                  key={variable.key}
                  variable={variable}
                  value={typed[variable.key] ?? ''}
                  change={(value) => {
                    forget(test.send);
                    setTyped({ ...typed, [variable.key]: value });
                  }}
                />
              ))}
            </Group>
          </Refusals>
        )}
        {missing.length > 0 && (
          <div className="body dim">
            Enter a value for {missing.map(({ key }) => key).join(', ')} to see the preview.
          </div>
        )}
        {missing.length === 0 && error && !isAtField && (
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
              <dd dir="auto">{data.subject ?? <span className="dim">set by the email</span>}</dd>
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
      <SendOne template={template} {...test} />
    </div>
  );
}

function ValueField(props: {
  variable: Template['variables'][number];
  value: string;
  change: (value: string) => void;
}) {
  const { variable, value, change } = props;
  const { key, fallback_value: fallback } = variable;
  const refusal = useRefusals();
  return (
    <TextInput
      label={key}
      w={160}
      placeholder={fallback === null ? 'needed' : String(fallback)}
      value={value}
      error={refusal(`variables.${key}`) ?? refusal(`template.variables.${key}`)}
      onChange={({ currentTarget }) => change(currentTarget.value)}
    />
  );
}

/** Sends the published version with these values, and leads to the email. */
function useTest(template: Template, values: Values) {
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
  return { send, isReady: template.status === 'published' && (template.from !== null || from !== undefined) };
}

function SendOne({ template, send, isReady }: { template: Template } & ReturnType<typeof useTest>) {
  const session = useSession();
  return (
    <Panel title="Send a test">
      <Form className="body" action={send} submit={(fields) => send.mutate(String(fields.get('to')).trim())}>
        <Group gap={8}>
          <TextField
            name="to"
            aria-label="Send to"
            w={240}
            placeholder="you@example.com"
            defaultValue={ownAddress(session) ?? ''}
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
