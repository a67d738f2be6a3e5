import { Link } from 'wouter';
import type { Bucket } from '../../../client/index.ts';
import { Panel } from '../../parts/page.tsx';
import { count, percent, spaced } from '../../words/format.ts';
import type { Span } from '../../words/spans.ts';

/** The failed recipients of these intervals by class, the most frequent first. */
export function failuresByClass(buckets: Bucket[]): [name: string, value: number][] {
  const sums = new Map<string, number>();
  for (const { failed_by_class: classes } of buckets)
    for (const [name, value] of Object.entries(classes)) sums.set(name, (sums.get(name) ?? 0) + value);
  return [...sums].sort(([, a], [, b]) => b - a);
}

/** A bar for each class of failure; nothing if nothing failed. @param props.time how far back the numbers go */
export function Failures({ buckets, time }: { buckets: Bucket[]; time: Span }) {
  const classes = failuresByClass(buckets);
  const all = classes.reduce((sum, [, value]) => sum + value, 0);
  if (all === 0) return null;
  return (
    <Panel
      title="Why mail failed"
      actions={
        <Link href={`/emails?status=failed&time=${time}`} className="link" style={{ fontSize: 13 }}>
          Show the emails
        </Link>
      }
    >
      <ul className="bars body">
        {classes.map(([name, value]) => (
          <li key={name}>
            <span>{spaced(name)}</span>
            <span className="bar" aria-hidden="true">
              <span style={{ width: `${(100 * value) / all}%` }} />
            </span>
            <span>{count(value)}</span>
            <span className="dim">{percent(value, all)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
