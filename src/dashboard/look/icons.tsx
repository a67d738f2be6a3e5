const paths = {
  start: 'M5 3.5v13l9-6.5z',
  overview: 'M3 16V9m4.5 7V4m4.5 12v-5m4.5 5V7',
  emails: 'M2.5 5h15v10.5h-15zM3 5.5l7 5.5 7-5.5',
  sandbox: 'M2.5 11 5 4.5h10l2.5 6.5v5h-15zm0 0H7l1 2h4l1-2h4.5',
  domains: 'M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15M2.5 10h15M10 2.5c5 4.5 5 10.5 0 15-5-4.5-5-10.5 0-15',
  keys: 'M12.5 3a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M9 10.5 3 16.5m2-2 2 2',
  templates: 'M3.5 3h13v14h-13zM3.5 7.5h13M8 7.5V17',
  suppressions: 'M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15M4.7 4.7l10.6 10.6',
  webhooks: 'M7 7.5a3 3 0 1 1 4.5 2.6L14 14M6 14a3 3 0 1 0 2.5 0L10 9m4 5a2.5 2.5 0 1 1-1 2H8',
  destinations: 'M10 17.5s6-5 6-9.5a6 6 0 1 0-12 0c0 4.5 6 9.5 6 9.5M10 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4',
  accounts:
    'M7.5 9a3 3 0 1 0 0-6 3 3 0 0 0 0 6M2 16.5c0-3 2.5-5 5.5-5s5.5 2 5.5 5M13 3.5a3 3 0 0 1 0 5.5m2 3c2 .7 3 2.3 3 4.5',
  doctor: 'M3 3.5h14v13H3zM6 10l2.5 2.5L14 7',
  settings: 'M3 6h8m4 0h2M3 14h2m4 0h8M13 4v4M7 12v4',
  docs: 'M4 3h9l3 3v11H4zM7 9h6m-6 3.5h6',
  sun: 'M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7M10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1 1m9.4 9.4 1 1m0-11.4-1 1M5.3 14.7l-1 1',
  moon: 'M16.5 11.5A7 7 0 0 1 8.5 3.5a7 7 0 1 0 8 8',
  leave: 'M8 3.5H4v13h4M12 6.5l3.5 3.5-3.5 3.5M7 10h8',
  copy: 'M7 7h9.5v9.5H7zM13 7V3.5H3.5V13H7',
  check: 'm4 10.5 4 4 8-9',
  search: 'M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11m4 9.5 4 4',
  more: 'M5 10h.01M10 10h.01M15 10h.01',
  left: 'm12 4.5-5.5 5.5 5.5 5.5',
  right: 'm8 4.5 5.5 5.5L8 15.5',
} as const;

export type IconName = keyof typeof paths;

/** A decorative icon: always next to words. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg
      aria-hidden="true"
      width={size}
      height={size}
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth={name === 'more' ? 2.4 : 1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
    >
      <path d={paths[name]} />
    </svg>
  );
}

export function Logo() {
  return (
    <svg aria-hidden="true" viewBox="0 0 32 32">
      <rect width="32" height="32" rx="8" fill="#3b5bdb" />
      <path d="M7 16.5 25 8l-6.2 17-4.3-6.3z" fill="#fff" />
      <path d="m14.5 18.7 4.6-4.9" stroke="#3b5bdb" strokeWidth="1.8" strokeLinecap="round" />
    </svg>
  );
}
