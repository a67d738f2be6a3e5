import { type ReactNode, useEffect } from 'react';
import { Link } from 'wouter';
import { useArrival } from '../browser/beginning.ts';

/** The head of a page: its title, its purpose, and its actions. */
export function PageHead(props: {
  title: string;
  words?: ReactNode;
  back?: { href: string; name: string };
  actions?: ReactNode;
}) {
  const { title, words, back, actions } = props;
  useEffect(() => {
    document.title = `${title} · Sendwright`;
  }, [title]);
  useArrival();
  return (
    <>
      {back && (
        <Link href={back.href} className="crumb">
          ‹ {back.name}
        </Link>
      )}
      <div className="page-head">
        <div className="words">
          <h1 dir="auto">{title}</h1>
          {words && <p>{words}</p>}
        </div>
        {actions}
      </div>
    </>
  );
}

export function Panel({ title, actions, children }: { title: ReactNode; actions?: ReactNode; children: ReactNode }) {
  return (
    <section className="panel">
      <header>
        <h2 className="panel-title">{title}</h2>
        {actions}
      </header>
      {children}
    </section>
  );
}
