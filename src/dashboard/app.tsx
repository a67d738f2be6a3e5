import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider, useQuery } from '@tanstack/react-query';
import { type ComponentType, lazy, Suspense, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { Link, Redirect, Route, Router, Switch } from 'wouter';
import type { Session } from '../client/index.ts';
import { askNoMore } from './browser/interrupted.ts';
import { loadAnew, navigateIfAgreed } from './browser/leaving.ts';
import { nonce } from './browser/nonce.ts';
import { api, askFor, CannotBeDone, queries } from './data/api.ts';
import { endedByItself, forgetAll, noteLogin, ShownTo, useSessionState } from './data/session.ts';
import { Shell } from './frame/shell.tsx';
import { theme } from './look/theme.ts';
import { LogIn } from './pages/accounts/log-in.tsx';
import { entries, visible } from './pages.ts';
import { Boundary, Failed, Waiting } from './parts/failure.tsx';
import { PageHead } from './parts/page.tsx';

const page = <Name extends string>(load: () => Promise<Record<Name, ComponentType>>, name: Name) =>
  lazy(async () => {
    const loaded = await load().catch(() => {
      throw new CannotBeDone('The server does not answer, or was updated meanwhile.');
    });
    return { default: loaded[name] };
  });

const routes: [path: string, page: ComponentType][] = [
  ['/start', page(() => import('./pages/start/start.tsx'), 'Start')],
  ['/sandbox/:id?', page(() => import('./pages/sandbox/sandbox.tsx'), 'Sandbox')],
  ['/emails', page(() => import('./pages/emails/emails.tsx'), 'Emails')],
  ['/emails/:id', page(() => import('./pages/emails/email.tsx'), 'EmailPage')],
  ['/overview', page(() => import('./pages/overview/overview.tsx'), 'Overview')],
  ['/domains', page(() => import('./pages/domains/domains.tsx'), 'Domains')],
  ['/domains/:id', page(() => import('./pages/domains/domain.tsx'), 'DomainPage')],
  ['/webhooks', page(() => import('./pages/webhooks/webhooks.tsx'), 'Webhooks')],
  ['/webhooks/:id', page(() => import('./pages/webhooks/webhook.tsx'), 'WebhookPage')],
  ['/suppressions', page(() => import('./pages/suppressions/suppressions.tsx'), 'Suppressions')],
  ['/templates', page(() => import('./pages/templates/templates.tsx'), 'Templates')],
  ['/templates/:id', page(() => import('./pages/templates/template.tsx'), 'TemplatePage')],
  ['/destinations', page(() => import('./pages/destinations/destinations.tsx'), 'Destinations')],
  ['/accounts', page(() => import('./pages/accounts/accounts.tsx'), 'Accounts')],
  ['/doctor', page(() => import('./pages/doctor/doctor.tsx'), 'DoctorPage')],
  ['/settings', page(() => import('./pages/accounts/settings.tsx'), 'Settings')],
  ['/keys', page(() => import('./pages/keys/keys.tsx'), 'Keys')],
];

/** Whether the navigation leads this user to such a page, or to the list that it belongs to. */
function isFor({ user, service }: Session, path: string): boolean {
  const entry = entries.find((one) => one.path === path.split('/:', 1)[0]);
  return entry !== undefined && visible(entry, { admin: user.role === 'admin', sandbox: service.sandbox });
}

export function App() {
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <QueryClientProvider client={queries}>
        <Notifications position="bottom-right" />
        <Boundary>
          <Router aroundNav={navigateIfAgreed}>
            <Gate />
          </Router>
        </Boundary>
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** The login, or the pages behind it. */
function Gate() {
  const { data: session, error } = useSessionState();
  const known = useNewcomer(session?.user.id ?? null);
  // While the server is away, the last known login holds.
  if (error && session === undefined) throw error;
  if (session === undefined) return <Opening />;
  if (session === null) return <LogIn ended={known && endedByItself()} />;
  return (
    <ShownTo value={session}>
      <Shell>
        <Suspense fallback={<Waiting />}>
          <Switch>
            {routes.map(([path, Page]) => (
              <Route key={path} path={path}>
                <Boundary key={path}>{isFor(session, path) ? <Page /> : <Nowhere />}</Boundary>
              </Route>
            ))}
            <Route path="/">
              <Home />
            </Route>
            <Route>
              <Nowhere />
            </Route>
          </Switch>
        </Suspense>
      </Shell>
    </ShownTo>
  );
}

/** What the document shows from its beginning, until this makes way for a page, or for why there is none. */
function Opening() {
  useLayoutEffect(() => () => document.getElementById('opening')?.remove(), []);
  return null;
}

/**
 * Reloads if another user has logged in meanwhile, also after a login page: the page still shows and holds the previous user's
 * data, or is in the middle of work for them, the rest of which must not be done for another account.
 *
 * @returns whether somebody was logged in here before
 */
function useNewcomer(userId: string | null): boolean {
  const shownTo = useRef<string | null>(null);
  const [known, setKnown] = useState(false);
  useEffect(() => {
    if (userId === null) return forgetAll();
    const before = shownTo.current;
    shownTo.current = userId;
    if (before !== null && before !== userId) return loadAnew();
    askFor(userId);
    noteLogin();
    askNoMore();
    setKnown(true);
  }, [userId]);
  return known;
}

/** Starts accounts that have sent something on the overview, others on the first steps. */
function Home() {
  const query = useQuery({
    queryKey: ['emails', 'home'],
    queryFn: () => api.emails.list({ limit: 1 }),
  });
  const { data, error } = query;
  if (error) return <Failed query={query} isBelow={false} />;
  return data ? <Redirect to={data.count > 0 ? '/overview' : '/start'} replace /> : <Waiting />;
}

function Nowhere() {
  return (
    <>
      <PageHead title="No such page" words="There is no page for you at this address. It may be mistyped." />
      <Link href="/">Go to the first page</Link>
    </>
  );
}
