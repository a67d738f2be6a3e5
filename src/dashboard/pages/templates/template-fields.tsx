import { ActionIcon, Button, Group, NativeSelect, Tabs, Textarea, TextInput } from '@mantine/core';
import { Icon } from '../../look/icons.tsx';
import { useRefusals } from '../../parts/form.tsx';
import { Panel } from '../../parts/page.tsx';
import { asTyped, type Draft, placeholders } from './template-draft.ts';

type Variable = Draft['variables'][number];

export function TemplateFields({ draft, change }: { draft: Draft; change: (changes: Partial<Draft>) => void }) {
  const refusal = useRefusals();
  const text = (name: 'name' | 'alias' | 'from' | 'subject') => ({
    value: draft[name],
    error: refusal(name),
    onChange: ({ currentTarget }: { currentTarget: HTMLInputElement }) => change({ [name]: currentTarget.value }),
  });
  return (
    <div>
      <Panel title="Email">
        <div className="body">
          <Group grow>
            <TextInput label="Name" {...text('name')} />
            <TextInput label="Alias" placeholder="none" {...text('alias')} />
          </Group>
          <TextInput label="From" placeholder="set by the email" mt="sm" {...text('from')} />
          <TextInput label="Subject" placeholder="set by the email" mt="sm" dir="auto" {...text('subject')} />
        </div>
        <Tabs defaultValue="html">
          <Tabs.List pl={14}>
            <Tabs.Tab value="html">HTML</Tabs.Tab>
            <Tabs.Tab value="text">Text</Tabs.Tab>
          </Tabs.List>
          {(['html', 'text'] as const).map((body) => (
            <Tabs.Panel value={body} key={body} p={14}>
              <Textarea
                aria-label={body === 'html' ? 'The body as HTML' : 'The body as text'}
                rows={16}
                styles={{ input: { fontFamily: 'var(--mono)', fontSize: 12, lineHeight: '18px' } }}
                spellCheck={body === 'text'}
                value={draft[body]}
                error={refusal(body)}
                onChange={({ currentTarget }) => change({ [body]: currentTarget.value })}
              />
              <div className="dim" style={{ fontSize: 12, marginTop: 6 }}>
                {'{{KEY}} inserts a value, escaped in HTML; {{{KEY}}} inserts it unescaped.'}
              </div>
            </Tabs.Panel>
          ))}
        </Tabs>
      </Panel>
      <Variables draft={draft} change={(variables) => change({ variables })} />
    </div>
  );
}

function Variables({ draft, change }: { draft: Draft; change: (variables: Variable[]) => void }) {
  const { variables } = draft;
  const refusal = useRefusals();
  const undeclared = placeholders(draft).filter((key) => !variables.some((variable) => variable.key === key));
  const set = (index: number, changes: Partial<Variable>) =>
    change(variables.map((variable, at) => (at === index ? { ...variable, ...changes } : variable)));
  const add = (key: string) => change([...variables, { key, type: 'string', fallback_value: null }]);
  return (
    <Panel
      title="Variables"
      actions={
        <Button variant="default" data-again onClick={() => add('')}>
          Add
        </Button>
      }
    >
      <div className="body">
        {variables.length === 0 && undeclared.length === 0 && (
          <span className="dim" style={{ fontSize: 13 }}>
            None. What stands in double braces is one; declared here it can have a fallback.
          </span>
        )}
        {variables.map((variable, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: while its name is typed nothing else tells it apart
          <Group key={index} gap={6} mb={6}>
            <TextInput
              aria-label="Name of the variable"
              placeholder="NAME"
              value={variable.key}
              error={refusal(`variables[${index}].key`)}
              styles={{ input: { fontFamily: 'var(--mono)' } }}
              style={{ flex: '1 1 150px' }}
              onChange={({ currentTarget }) => set(index, { key: currentTarget.value })}
            />
            <NativeSelect
              aria-label={`Type of ${variable.key}`}
              value={variable.type}
              data={['string', 'number']}
              onChange={({ currentTarget }) =>
                set(index, { type: currentTarget.value as Variable['type'], fallback_value: null })
              }
            />
            <TextInput
              aria-label={`Fallback of ${variable.key}`}
              placeholder="no fallback"
              value={String(variable.fallback_value ?? '')}
              error={refusal(`variables[${index}].fallback_value`)}
              style={{ flex: '1 1 150px' }}
              onChange={({ currentTarget }) => set(index, { fallback_value: asTyped(currentTarget.value, variable) })}
            />
            <ActionIcon
              aria-label={`Remove ${variable.key}`}
              onClick={() => change(variables.filter((_, at) => at !== index))}
            >
              <Icon name="suppressions" size={14} />
            </ActionIcon>
          </Group>
        ))}
        {undeclared.length > 0 && (
          <div style={{ fontSize: 13 }} className="soft">
            Used but not declared:{' '}
            {undeclared.map((key) => (
              <Button key={key} variant="default" size="compact-xs" mr={6} onClick={() => add(key)}>
                {key}
              </Button>
            ))}
          </div>
        )}
      </div>
    </Panel>
  );
}
