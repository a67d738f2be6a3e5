import { Alert, Skeleton, Stack } from '@mantine/core';
import { Component, type ReactNode } from 'react';
import { Link } from 'wouter';
import { isStatus, isUnshown, wordsOf } from '../data/api.ts';
import { Empty } from './empty.tsx';
import { PageHead } from './page.tsx';
import { VanishingButton } from './vanishing.tsx';

/** What `useQuery` returns. */
export interface Query<Data = unknown> {
  data: Data | undefined;
  error: unknown;
  refetch: () => Promise<unknown>;
}

/**
 * Says what went wrong, with a way to try again.
 *
 * @param props.isBelow earlier data is still shown below
 */
export function Failure(props: { error: unknown; retry?: (() => void) | undefined; isBelow?: boolean }) {
  const { error, retry, isBelow = false } = props;
  const words = isStatus(error, 404) ? 'It does not exist, or it belongs to another account.' : wordsOf(error);
  // In one line: during a restart it comes and goes above what people read, several times on a page of several parts.
  if (isBelow)
    return (
      <Alert color="red" variant="light" role="alert" mb="sm" py={6}>
        <div className="stale">
          <b>What you see below may be out of date.</b>
          <span>{words}</span>
          {retry && (
            <VanishingButton size="compact-xs" onClick={retry}>
              Try again
            </VanishingButton>
          )}
        </div>
      </Alert>
    );
  return (
    <Alert color="red" variant="light" title="This could not be loaded" role="alert">
      {words}
      {retry && (
        <div>
          <VanishingButton mt="xs" onClick={retry}>
            Try again
          </VanishingButton>
        </div>
      )}
    </Alert>
  );
}

/** The same for a query; draws nothing unless it failed. */
export function Failed({ query, isBelow = query.data !== undefined }: { query: Query; isBelow?: boolean }) {
  const { error, refetch } = query;
  if (!error) return null;
  return <Failure error={error} retry={() => void refetch()} isBelow={isBelow} />;
}

/** Shows the data, or why there is none. While the server is away, earlier data stays, with everything open in it. */
export function Known({ query, children }: { query: Query; children: ReactNode }) {
  const isNothing = isUnshown(query);
  return (
    <>
      <Failed query={query} isBelow={!isNothing} />
      {!isNothing && children}
    </>
  );
}

/**
 * Takes the place of a detail page. If the object was shown before and is not found now, says that it was removed.
 *
 * @param props.kind what kind of object it is
 * @param props.name its name, once known
 */
export function Unshown(props: {
  kind: string;
  name: string | undefined;
  back: { href: string; name: string };
  query: Query;
}) {
  const { kind, name, back, query } = props;
  return (
    <>
      <PageHead title={name ?? kind} back={back} />
      {name !== undefined && isStatus(query.error, 404) ? (
        <div className="table-box" role="alert">
          <Empty title={`This ${kind.toLowerCase()} no longer exists`} words="It was removed.">
            <Link href={back.href} className="link">
              All {back.name.toLowerCase()}
            </Link>
          </Empty>
        </div>
      ) : (
        <Failed query={query} isBelow={false} />
      )}
    </>
  );
}

/** A skeleton of a page that is loading. */
export function Waiting({ bars = 5 }: { bars?: number }) {
  return (
    <Stack gap="sm" role="status" aria-busy="true" aria-label="Loading">
      {Array.from({ length: bars }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they are all the same
        <Skeleton key={index} height={index === 0 ? 28 : 20} width={index === 0 ? 220 : `${96 - 7 * (index % 3)}%`} />
      ))}
    </Stack>
  );
}

/** Confines an error of one page to that page. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <div style={{ padding: 24 }}>
        <Failure error={this.state.error} retry={() => location.reload()} />
      </div>
    );
  }
}
