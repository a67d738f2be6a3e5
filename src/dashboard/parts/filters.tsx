import { Button, NativeSelect, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { useEffect, useRef, useState } from 'react';
import { Icon } from '../icons.tsx';

/** A text to search by, handed on when the typing pauses. */
export function SearchField(props: {
  label: string;
  value: string | undefined;
  change: (value: string | null) => void;
  /** The one that `/` goes to. */
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
  // The address was changed by something else: a link, the browser's buttons.
  useEffect(() => {
    if (value !== latest.current) setTyped(value);
    latest.current = value;
  }, [value]);
  return (
    <TextInput
      aria-label={label}
      placeholder={label}
      value={typed}
      w={width}
      leftSection={first ? <Icon name="search" size={14} /> : undefined}
      {...(first ? { 'data-search': true } : {})}
      onChange={({ currentTarget }) => {
        setTyped(currentTarget.value);
        later(currentTarget.value);
      }}
      // What is clicked next, as "Clear" may be, comes after what was typed.
      onBlur={later.flush}
    />
  );
}

/** One of few; the first is no choice. */
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

/** The two filters of a list that is short enough to be filtered here. */
export function NameAndStatus(props: {
  name: string;
  all: string;
  statuses: readonly string[];
  state: { q?: string; status?: string };
  change: (changes: { q?: string | null; status?: string | null }) => void;
}) {
  const { name, all, statuses, state, change } = props;
  return (
    <search className="filters">
      <SearchField label={name} value={state.q} change={(q) => change({ q })} first />
      <ChoiceField
        label="Status"
        all={all}
        choices={statuses}
        value={state.status}
        change={(status) => change({ status })}
      />
    </search>
  );
}

export function ClearFilters({ clear }: { clear: () => void }) {
  return (
    <Button variant="subtle" color="gray" onClick={clear}>
      Clear
    </Button>
  );
}
