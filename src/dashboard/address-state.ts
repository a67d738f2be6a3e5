import { useCallback } from 'react';
import { useSearchParams } from 'wouter';

/** What a page shows, as its address says it: so it can be linked, and the browser's buttons go through it. */
export function useAddressState<Name extends string>(
  names: readonly Name[],
): [Partial<Record<Name, string>>, (changes: Partial<Record<Name, string | null>>) => void] {
  const [params, setParams] = useSearchParams();
  const state = Object.fromEntries(names.flatMap((name) => (params.get(name) ? [[name, params.get(name)]] : [])));
  const change = useCallback(
    (changes: Partial<Record<Name, string | null>>) =>
      setParams(
        (before: URLSearchParams) => {
          const after = new URLSearchParams(before);
          for (const [name, value] of Object.entries(changes) as [string, string | null][]) {
            if (value) after.set(name, value);
            else after.delete(name);
          }
          return after;
        },
        { replace: true },
      ),
    [setParams],
  );
  return [state as Partial<Record<Name, string>>, change];
}

/** Which page of a list is shown, from 1; it goes back to the first when what is searched for changes. */
export const pageOf = (value: string | undefined): number => Math.max(1, Math.trunc(Number(value)) || 1);

/** The change that shows this page of a list; the first needs no saying. */
export const pageState = (page: number): { page: string | null } => ({ page: page === 1 ? null : String(page) });
