import { ActionIcon, Tooltip, useComputedColorScheme, useMantineColorScheme } from '@mantine/core';
import { type ReactNode, useEffect, useRef } from 'react';
import { Link, useLocation } from 'wouter';
import { useBeginning } from '../browser/beginning.ts';
import { leaveIfAgreed } from '../browser/leaving.ts';
import { Connected, useLive } from '../data/live.ts';
import { logOut, useSession } from '../data/session.ts';
import { Icon, Logo } from '../look/icons.tsx';
import { entries, type PageEntry, visible } from '../pages.ts';
import { tellFailure } from '../parts/action.tsx';
import { inOwnLetters } from '../words/own-letters.ts';
import { HoldBanner } from './hold.tsx';
import { Shortcuts } from './shortcuts.tsx';

const groups = [null, 'Sending', 'Set up', 'Server'] as const;

/** The frame around every page. */
export function Shell({ children }: { children: ReactNode }) {
  const { user, account, service } = useSession();
  const connected = useLive();
  const [location] = useLocation();
  useBeginning(location);
  const pages = useRef<HTMLDivElement>(null);
  // On small screens the entries scroll sideways: keep the current page's in view.
  useEffect(() => {
    void location;
    const strip = pages.current;
    const item = strip?.querySelector<HTMLElement>('[aria-current=page]');
    if (strip && item) strip.scrollLeft = item.offsetLeft - (strip.clientWidth - item.offsetWidth) / 2;
  }, [location]);
  const shown = entries.filter((entry) => visible(entry, { admin: user.role === 'admin', sandbox: service.sandbox }));
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <nav className="side" aria-label="Pages">
        <Link href="/" className="brand">
          <Logo />
          Sendwright
          {service.sandbox && (
            <Tooltip label="No mail leaves this machine">
              <span className="status mode" data-tone="wait">
                sandbox
              </span>
            </Tooltip>
          )}
        </Link>
        <div className="entries" ref={pages}>
          {groups.map((group) => (
            <NavGroup key={group} name={group} entries={shown.filter((entry) => entry.group === group)} />
          ))}
          <a className="item" href="/docs" target="_blank" rel="noreferrer">
            <Icon name="docs" />
            API reference
          </a>
        </div>
        <div className="foot">
          <div className="who">
            <div title={user.email}>{inOwnLetters(user.email)}</div>
            <div className="dim" dir="auto" title={account.name}>
              {account.name}
            </div>
          </div>
          <SchemeSwitch />
          <Tooltip label="Log out">
            <ActionIcon aria-label="Log out" onClick={() => leaveIfAgreed(() => void logOut().catch(tellFailure))}>
              <Icon name="leave" />
            </ActionIcon>
          </Tooltip>
        </div>
      </nav>
      <main className="main" id="main" tabIndex={-1}>
        <div className="page">
          {service.on_hold_since && user.role === 'admin' && <HoldBanner since={service.on_hold_since} />}
          <Connected value={connected}>{children}</Connected>
        </div>
      </main>
      <Shortcuts entries={shown} />
    </div>
  );
}

function NavGroup({ name, entries: members }: { name: string | null; entries: PageEntry[] }) {
  const [location] = useLocation();
  if (members.length === 0) return null;
  return (
    <>
      {name && <h2>{name}</h2>}
      {members.map(({ path, name: label, icon }) => (
        <Link
          key={path}
          href={path}
          className="item"
          aria-current={location === path || location.startsWith(`${path}/`) ? 'page' : undefined}
        >
          <Icon name={icon} />
          {label}
        </Link>
      ))}
    </>
  );
}

function SchemeSwitch() {
  const { setColorScheme } = useMantineColorScheme();
  const scheme = useComputedColorScheme('light');
  const other = scheme === 'light' ? 'dark' : 'light';
  return (
    <Tooltip label={`Switch to ${other}`}>
      <ActionIcon aria-label={`Switch to ${other}`} onClick={() => setColorScheme(other)}>
        <Icon name={scheme === 'light' ? 'moon' : 'sun'} />
      </ActionIcon>
    </Tooltip>
  );
}
