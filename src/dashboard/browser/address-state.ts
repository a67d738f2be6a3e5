import { useCallback } from 'react';
import { useSearchParams } from 'wouter';

/** The state of a page, kept in its address, so that it can be linked and the browser's buttons restore it. */
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

/** The page number of a list, from 1; filters that change drop it, which shows the first page. */
export const pageOf = (value: string | undefined): number => Math.max(1, Math.trunc(Number(value)) || 1);

/** The change that shows this page of a list; the first page is left out of the address. */
export const pageState = (page: number): { page: string | null } => ({ page: page === 1 ? null : String(page) });
