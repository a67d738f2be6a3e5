import { useQuery } from '@tanstack/react-query';
import { Link } from 'wouter';
import { api } from '../data/api.ts';
import { Command } from '../parts/copy.tsx';
import { Moment } from '../parts/moment.tsx';
import { endOfHold } from '../words/commands.ts';
import { exact, plural } from '../words/format.ts';

/** Above every page for operators while sending is on hold: since when, how much waits, and the two ways out. */
export function HoldBanner({ since }: { since: string }) {
  const { data } = useQuery({
    queryKey: ['hold'],
    queryFn: () => api.admin.emails.list({ status: 'queued', limit: 1 }),
    refetchInterval: 30_000,
  });
  return (
    <section className="hold" aria-label="The service is on hold">
      <h2 className="hold-title">Nothing is sent</h2>
      <p className="hold-words">
        The service has been on hold since {exact(new Date(since))} (<Moment at={since} lasting />
        ): it accepts mail, but sends no email and calls no webhook until you decide what to do with the mail that was
        due then.{' '}
        {data && (
          <Link href="/emails?status=queued&accounts=all" className="link">
            {plural(data.count, 'email')} {data.count === 1 ? 'is' : 'are'} queued
          </Link>
        )}
      </p>
      <div className="columns">
        <div>
          <p className="hold-words">Fail it, so that nothing is sent twice:</p>
          <Command text={endOfHold('fail')} what="the command that fails it" />
        </div>
        <div>
          <p className="hold-words">Send it, even if it was sent before:</p>
          <Command text={endOfHold('send')} what="the command that sends it" />
        </div>
      </div>
    </section>
  );
}
