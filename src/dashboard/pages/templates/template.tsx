import { Button, Group } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useLocation, useParams } from 'wouter';
import type { Template } from '../../../client/index.ts';
import { useOutliving } from '../../browser/interrupted.ts';
import { leaveFreely } from '../../browser/leaving.ts';
import { api, isUnshown, queries } from '../../data/api.ts';
import { Confirmed, useAction } from '../../parts/action.tsx';
import { Unshown, Waiting } from '../../parts/failure.tsx';
import { forget, Refusals } from '../../parts/form.tsx';
import { AskBeforeLeaving } from '../../parts/leave.tsx';
import { Moment } from '../../parts/moment.tsx';
import { PageHead } from '../../parts/page.tsx';
import { Status } from '../../parts/status.tsx';
import { bodyOf, type Draft, draftOf, without } from './template-draft.ts';
import { TemplateFields } from './template-fields.tsx';
import { TemplatePreview } from './template-preview.tsx';

const back = { href: '/templates', name: 'Templates' };

export function TemplatePage() {
  const { id = '' } = useParams<{ id: string }>();
  const query = useQuery({
    queryKey: ['templates', 'one', id],
    queryFn: () => api.templates.get(id),
  });
  const { data } = query;
  if (isUnshown(query)) return <Unshown kind="Template" name={data?.template.name} back={back} query={query} />;
  if (!data) return <Waiting bars={7} />;
  return <Editor key={id} template={data.template} />;
}

function Editor({ template }: { template: Template }) {
  const { id } = template;
  const [, navigate] = useLocation();
  // Holds only what was typed here: other people's saved changes appear, and are not overwritten by older values.
  const [typed, setTyped] = useOutliving<Draft>(`template ${id}`);
  const loaded = draftOf(template);
  const changes = without(typed, loaded);
  const draft = { ...loaded, ...changes };
  const isChanged = Object.keys(changes).length > 0;
  const save = useAction(
    async (sent: Partial<Draft>) => ({ sent, saved: await api.templates.update(id, bodyOf(sent)) }),
    'Saved as a draft.',
    ({ sent, saved }) => {
      queries.setQueryData(['templates', 'one', id], saved);
      setTyped((now) => without(now, sent));
    },
  );
  const change = (more: Partial<Draft>) => {
    forget(save);
    setTyped(without({ ...changes, ...more }, loaded));
  };
  // The timestamp makes the server refuse if somebody has saved since: nothing is published unseen.
  const publish = useAction(
    () => api.templates.publish(id, { updated_at: template.updated_at }),
    'Published: emails use it from now on.',
  );
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
            {template.published_at && template.has_unpublished_changes && ', and the draft differs'}
          </>
        }
        actions={
          <Group gap={6} wrap="nowrap">
            <Button
              variant={isChanged ? 'filled' : 'default'}
              disabled={!isChanged}
              loading={save.isPending}
              onClick={() => save.mutate(changes)}
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
              then={() => {
                leaveFreely();
                navigate('/templates');
              }}
            />
          </Group>
        }
      />
      <AskBeforeLeaving unsaved={isChanged} what="The template" />
      <div className="editor">
        <Refusals of={save}>
          <TemplateFields draft={draft} change={change} />
        </Refusals>
        <TemplatePreview template={template} isChanged={isChanged} />
      </div>
    </>
  );
}
