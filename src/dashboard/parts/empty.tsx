import type { ReactNode } from 'react';
import { Command } from './copy.tsx';

/** Shown where there is nothing yet: what belongs here, and how to get it. */
export function Empty(props: { title: string; words: ReactNode; command?: string; children?: ReactNode }) {
  const { title, words, command, children } = props;
  return (
    <div className="empty">
      <h2 className="empty-title">{title}</h2>
      <p>{words}</p>
      {command && (
        <div className="empty-command">
          <Command text={command} />
        </div>
      )}
      {children}
    </div>
  );
}
