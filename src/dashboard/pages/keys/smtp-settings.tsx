import { useSession } from '../../data/session.ts';
import { Copy } from '../../parts/copy.tsx';
import { Panel } from '../../parts/page.tsx';
import { smtpPorts } from '../../words/commands.ts';

/** What programs that send by SMTP ask for; nothing, if they cannot send to this server. */
export function SmtpSettings() {
  const { submission } = useSession().service;
  if (!submission) return null;
  return (
    <div style={{ marginTop: 16 }}>
      <Panel title="By SMTP">
        <dl className="facts body">
          <dt>Server</dt>
          <dd>
            <span className="mono">{submission.host}</span> <Copy text={submission.host} what="the server" />
          </dd>
          <dt>Port</dt>
          <dd>{smtpPorts(submission)}</dd>
          <dt>User name</dt>
          <dd>
            anything, such as <span className="mono">sendwright</span>
          </dd>
          <dt>Password</dt>
          <dd>a key that can send</dd>
          {submission.self_signed && (
            <>
              <dt>Certificate</dt>
              <dd>self-signed: tell the program not to check it, or to trust it</dd>
            </>
          )}
        </dl>
      </Panel>
    </div>
  );
}
