import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useEffect, useState } from 'react';
import { useLocation, useParams } from 'wouter';
import type { Template } from '../../client/index.ts';
import { api, isUnshown } from '../api.ts';
import { Confirmed, useAction } from '../parts/action.tsx';
import { Unshown, Waiting } from '../parts/failure.tsx';
import { forget, Refusals } from '../parts/form.tsx';
import { Moment } from '../parts/moment.tsx';
import { PageHead } from '../parts/page.tsx';
import { Status } from '../parts/status.tsx';
import { type Draft, draftOf } from './template-draft.ts';
import { TemplateFields } from './template-fields.tsx';
import { TemplatePreview } from './template-preview.tsx';

const back = { href: '/templates', name: 'Templates' };

export function TemplatePage() {
  const { id = '' } = useParams<{ id: string }>();
  const { data, error } = useQuery({ queryKey: ['templates', 'one', id], queryFn: () => api.templates.get(id) });
  if (isUnshown(data, error)) return <Unshown kind="Template" name={data?.template.name} back={back} error={error} />;
  if (!data) return <Waiting bars={7} />;
  return <Editor key={id} template={data.template} />;
}

function Editor({ template }: { template: Template }) {
  const { id } = template;
  const [, navigate] = useLocation();
  const [draft, setDraft] = useState(draftOf(template));
  const isChanged = JSON.stringify(draft) !== JSON.stringify(draftOf(template));
  const save = useAction(
    () =>
      api.templates.update(id, {
        ...draft,
        alias: draft.alias || null,
        from: draft.from || null,
        subject: draft.subject || null,
        html: draft.html || null,
        text: draft.text || null,
      }),
    'Saved as a draft.',
  );
  const change = (changes: Partial<Draft>) => {
    forget(save);
    setDraft({ ...draft, ...changes });
  };
  const publish = useAction(() => api.templates.publish(id), 'Published: emails are made from it from now on.');
  useWarning(isChanged);
  const canPublish = !isChanged && (template.status === 'draft' || template.has_unpublished_changes);
  return (
    <>
      <PageHead
        title={template.name}
        back={back}
        words={
          <>
            <Status value={template.status} />{' '}
            {template.published_at && (
              <>
                published <Moment at={template.published_at} />
              </>
            )}
            {template.published_at && template.has_unpublished_changes && ', and the draft says something else'}
          </>
        }
        actions={
          <Group gap={6} wrap="nowrap">
            <Button
              variant={isChanged ? 'filled' : 'default'}
              disabled={!isChanged}
              loading={save.isPending}
              onClick={() => save.mutate(undefined)}
            >
              Save
            </Button>
            <Button disabled={!canPublish} loading={publish.isPending} onClick={() => publish.mutate(undefined)}>
              Publish
            </Button>
            <Confirmed
              name="Remove"
              words="Programs that send with it are refused from then on. What was sent stays as it is."
              act={() => api.templates.remove(id)}
              done="The template was removed."
              then={() => navigate('/templates')}
            />
          </Group>
        }
      />
      <div className="editor">
        <Refusals of={save}>
          <TemplateFields draft={draft} change={change} />
        </Refusals>
        <TemplatePreview template={template} isChanged={isChanged} />
      </div>
    </>
  );
}

/** Leaving the page with something unsaved asks first. */
function useWarning(isChanged: boolean): void {
  useEffect(() => {
    if (!isChanged) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    addEventListener('beforeunload', warn);
    return () => removeEventListener('beforeunload', warn);
  }, [isChanged]);
}
