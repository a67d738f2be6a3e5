import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { type ComponentProps, type MouseEvent, type ReactNode, useEffect, useRef, useState } from 'react';
import { Icon } from '../look/icons.tsx';

/** A search text, passed on when the typing pauses. */
export function SearchField(props: {
  label: string;
  value: string | undefined;
  change: (value: string | null) => void;
  /** Marks the field that `/` focuses. */
  first?: boolean;
  width?: number;
}) {
  const { label, value = '', change, first = false, width = 190 } = props;
  const [typed, setTyped] = useState(value);
  const latest = useRef(value);
  const later = useDebouncedCallback((text: string) => {
    latest.current = text.trim();
    change(text.trim() || null);
  }, 250);
  // Something else changed the address: a link, or the browser's buttons.
  useEffect(() => {
    if (value !== latest.current) setTyped(value);
    latest.current = value;
  }, [value]);
  return (
    <TextInput
      aria-label={label}
      placeholder={label}
      value={typed}
      style={{ '--width': `${width}px` }}
      leftSection={first ? <Icon name="search" size={14} /> : undefined}
      {...(first ? { 'data-search': true } : {})}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        later(currentTarget.value);
      }}
      // The next click, on "Clear" for example, must come after what was typed.
      onBlur={later.flush}
    />
  );
}

/** One of a few choices; the first option means no choice. */
export function ChoiceField(props: {
  label: string;
  all: string;
  choices: readonly (string | { value: string; label: string })[];
  value: string | undefined;
  change: (value: string | null) => void;
}) {
  const { label, all, choices, value = '', change } = props;
  return (
    <NativeSelect
      aria-label={label}
      value={value}
      data={[{ value: '', label: all }, ...choices]}
      onChange={({ currentTarget }) => change(currentTarget.value || null)}
    />
  );
}

/** The search of a list that has no other filter, what else there is to choose, and how many match, in words. */
export function ListSearch(props: {
  label: string;
  value: string | undefined;
  change: (value: string | null) => void;
  found: string;
  children?: ReactNode;
}) {
  const { found, children, ...field } = props;
  return (
    <search className="filters">
      <SearchField {...field} first width={240} />
      {children}
      <Found>{found}</Found>
    </search>
  );
}

/** How many match, in words. */
export function Found({ children }: { children: ReactNode }) {
  return (
    <span className="count" aria-live="polite">
      {children}
    </span>
  );
}

/** The two filters of a list that is short enough to filter in the browser, and how many match, in words. */
export function NameAndStatus(props: {
  name: string;
  all: string;
  statuses: ComponentProps<typeof ChoiceField>['choices'];
  state: { q?: string; status?: string };
  change: (changes: { q?: string | null; status?: string | null; page: null }) => void;
  found: string;
}) {
  const { name, all, statuses, state, change, found } = props;
  return (
    <search className="filters">
      <SearchField label={name} value={state.q} change={(q) => change({ q, page: null })} first />
      <ChoiceField
        label="Status"
        all={all}
        choices={statuses}
        value={state.status}
        change={(status) => change({ status, page: null })}
      />
      <Found>{found}</Found>
    </search>
  );
}

export function ClearFilters({ clear }: { clear: () => void }) {
  const press = (event: MouseEvent<HTMLButtonElement>) => {
    // It goes with the filters, and the keyboard's place with it. A finger is left alone: a phone would show its keys.
    if (event.detail === 0) document.querySelector<HTMLElement>('[data-search]')?.focus();
    clear();
  };
  return (
    <Button variant="subtle" color="gray" onClick={press}>
      Clear
    </Button>
  );
}
